"""All timing code: what `se-rl bench` measures, and the scripts that write docs/results.

The folder is installed as `se_rl_benchmarks` (src/se_rl_benchmarks is a link to it), so that
`se-rl bench` works from a wheel too. Nothing in `se_rl` but that command imports it.
"""
