"""`se-rl experiment`: runs of one or several arms over several seeds, and their comparison.

Every run has its own folder under --out; the same command resumes an interrupted one. All runs
share one seal, so that they are compared on the same sealed days: it is drawn once, kept in the
file `seal` under --out, and printed; --seal repeats that of another experiment.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from se_rl.commands.parsing import verb
from se_rl.commands.run import ABLATIONS
from se_rl.commands.strangers import one_line_errors
from se_rl.config import ConfigError
from se_rl.records.settings import ARMS
from se_rl.seal import Seal

CONTROLS = tuple(arm for arm in ARMS if arm != "full")


def add_experiment(verbs: Any) -> None:
    """The verb `experiment`; options that it does not know go on to `se-rl run` as they are."""
    parser = verb(
        verbs,
        "experiment",
        "runs of several arms over several seeds, compared at the end; takes the options of `run`",
        "se-rl experiment --dataset nasdaq100 --seeds 3 --arms full no-dek random",
    )
    parser.allow_abbrev = False
    parser.add_argument(
        "--dataset", default="nasdaq100", help="file, imported set, csi100 or nasdaq100"
    )
    parser.add_argument(
        "--seeds", type=int, default=5, help="runs per arm: seeds 0, 1, ... (default: 5)"
    )
    parser.add_argument(
        "--preset", default="quick", help="tiny, quick, standard or paper (default: quick)"
    )
    parser.add_argument(
        "--arms",
        nargs="+",
        metavar="ARM",
        help=f"full, {', '.join((*CONTROLS, *ABLATIONS))} (default: full)",
    )
    for flag, (words, _) in ABLATIONS.items():
        parser.add_argument(f"--{flag}", action="store_true", help=words)
    parser.add_argument(
        "--out", type=Path, default=Path("out/experiment"), help="folder of the runs"
    )
    parser.add_argument("--seal", metavar="TEXT", help="seal of all runs (default: drawn once)")
    parser.set_defaults(run=partial(_experiment, verbs), others=[])


def call_verb(verbs: Any, words: Sequence[str]) -> int:
    """Run another verb as if it had been typed."""
    options = verbs.choices[words[0]].parse_args(words[1:])
    options.verb = words[0]
    with one_line_errors(options):
        return int(options.run(options) or 0)


def _experiment(verbs: Any, options: argparse.Namespace) -> int:
    """Run every arm with every seed, then compare."""
    if options.seeds < 1:
        raise ConfigError(f"--seeds is {options.seeds}; use 1 or more")
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
            code = call_verb(verbs, [*run, *words, *known, *options.others])
            if code:
                return code
            folders.append(folder)
    return call_verb(verbs, ["compare", *folders, *(["--json"] if options.json else [])])


def chosen_arms(options: argparse.Namespace) -> dict[str, list[str]]:
    """The arms asked for by name, each with its options of `se-rl run`."""
    flags = [flag for flag in ABLATIONS if getattr(options, flag.replace("-", "_"))]
    switches = [f"--{flag}" for flag in flags]
    if not options.arms:
        return {"-".join(flags) or "full": switches}
    return {arm: [*_arm_words(arm), *switches] for arm in options.arms}


def _arm_words(arm: str) -> list[str]:
    if arm == "full":
        return []
    if arm in CONTROLS:
        return ["--arm", arm]
    if arm in ABLATIONS:
        return [f"--{arm}"]
    raise ConfigError(f"arm {arm!r} is unknown; use full, {', '.join((*CONTROLS, *ABLATIONS))}")


def shared_seal(out: Path, given: str | None) -> str:
    """The seal of all runs under `out`: the one that is kept there, the given one, or a new one."""
    file = out / "seal"
    kept = file.read_text().strip() if file.exists() else None
    if given is not None and kept not in (None, given):
        raise ConfigError(
            f"--seal is {given!r}, but {out} was begun with {kept!r}; choose another --out"
        )
    text = given if kept is None else kept
    seal = Seal.draw() if text is None else Seal(text)
    out.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{seal.text}\n")
    origin = "kept" if kept else seal.origin
    print(f"--- seal of all runs ({origin}): {seal.text}", file=sys.stderr, flush=True)
    return seal.text
