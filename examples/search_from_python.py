"""A whole search from Python: designs drawn at random, the smallest preset, results as a frame.

The scores of `tiny` mean nothing; take `quick` and an arm with a model for a first look.

python examples/search_from_python.py
"""

from __future__ import annotations

from se_rl import RunResults, SERLFramework, preset


def main(out: str = "out/example") -> RunResults:
    """Run it, or go on with it; the page is in the same folder."""
    config = preset("tiny", arm="random")
    results = SERLFramework(config, out=out).run_training()
    print(results.verdict)
    print(results.to_frame().round(2))
    print(f"page: {out}/report.html")
    return results


if __name__ == "__main__":
    main()
