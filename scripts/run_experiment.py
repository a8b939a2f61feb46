"""Runs of one or several arms over several seeds, and their comparison.

python scripts/run_experiment.py --dataset nasdaq100 --seeds 5
python scripts/run_experiment.py --dataset csi100 --seeds 3 --no-dek
python scripts/run_experiment.py --dataset nasdaq100 --seeds 3 --preset standard \\
    --arms full no-dek random best-of-n

Every run has its own folder under --out; the same command resumes an interrupted one. All runs
share one seal, so that they are compared on the same sealed days: it is drawn once, kept in the
file `seal` under --out, and printed; --seal repeats that of another experiment.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from se_rl.commands.run import ABLATIONS
from se_rl.config import ConfigError
from se_rl.main import main
from se_rl.seal import Seal

CONTROLS = ("best-of-n", "frozen", "random")


def arm_words(arm: str) -> list[str]:
    """The options of `se-rl run` for an arm."""
    if arm == "full":
        return []
    if arm in CONTROLS:
        return ["--arm", arm]
    if arm in ABLATIONS:
        return [f"--{arm}"]
    sys.exit(f"arm {arm!r} is unknown; use full, {', '.join((*CONTROLS, *ABLATIONS))}")


def experiment() -> int:
    """Run every arm with every seed, then compare."""
    options, others = _options()
    arms = chosen_arms(options)
    seal = shared_seal(options.out, options.seal)
    folders: list[str] = []
    for name, words in arms.items():
        for seed in range(options.seeds):
            folder = str(options.out / f"{Path(options.dataset).stem}-{name}-{seed}")
            print(f"--- {name}, seed {seed}: {folder}", file=sys.stderr, flush=True)
            run = ["run", "--data", options.dataset, "--preset", options.preset]
            run += ["--seed", str(seed), f"--seal={seal}", "--out", folder]
            # The default's trainings are the same work in every run.
            known = ["--reuse", *folders] if folders else []
            code = main([*run, *words, *known, *others])
            if code:
                return code
            folders.append(folder)
    return main(["compare", *folders, *(["--json"] if options.json else [])])


def shared_seal(out: Path, given: str | None) -> str:
    """The seal of all runs under `out`: the one that is kept there, the given one, or a new one."""
    file = out / "seal"
    kept = file.read_text().strip() if file.exists() else None
    if given is not None and kept not in (None, given):
        sys.exit(f"--seal is {given!r}, but {out} was begun with {kept!r}; choose another --out")
    text = given if kept is None else kept
    try:
        seal = Seal.draw() if text is None else Seal(text)
    except ConfigError as error:
        sys.exit(f"{error}")
    out.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{seal.text}\n")
    origin = "kept" if kept else seal.origin
    print(f"--- seal of all runs ({origin}): {seal.text}", file=sys.stderr, flush=True)
    return seal.text


def chosen_arms(options: argparse.Namespace) -> dict[str, list[str]]:
    """The arms asked for by name, each with its options of `se-rl run`."""
    flags = [flag for flag in ABLATIONS if getattr(options, flag.replace("-", "_"))]
    switches = [f"--{flag}" for flag in flags]
    if not options.arms:
        return {"-".join(flags) or "full": switches}
    return {arm: [*arm_words(arm), *switches] for arm in options.arms}


def _options() -> tuple[argparse.Namespace, list[str]]:
    """What was asked for, and the words that go on to `se-rl run` as they are."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--dataset", default="nasdaq100", help="file, imported set, csi100 or nasdaq100"
    )
    parser.add_argument(
        "--seeds", type=int, default=5, help="runs per arm: seeds 0, 1, ... (default: 5)"
    )
    parser.add_argument(
        "--preset", default="quick", help="tiny, quick, standard or paper (default: quick)"
    )
    parser.add_argument("--arms", nargs="+", metavar="ARM", help="which arms (default: full)")
    for flag, (words, _) in ABLATIONS.items():
        parser.add_argument(f"--{flag}", action="store_true", help=words)
    parser.add_argument(
        "--out", type=Path, default=Path("out/experiment"), help="folder of the runs"
    )
    parser.add_argument("--seal", metavar="TEXT", help="seal of all runs (default: drawn once)")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    options, others = parser.parse_known_args()
    if options.seeds < 1:
        sys.exit(f"--seeds is {options.seeds}; use 1 or more")
    return options, others


if __name__ == "__main__":
    sys.exit(experiment())
