"""Designers side by side: what one edit gains over its parent, how many are valid, how long they take.

    OMP_NUM_THREADS=1 python benchmarks/designers.py --out out/designers
        [--adapter FILE ...] [--parents 60] [--edits 8] [--validate 200] [--model smollm2]
    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/designers.py --out out/designers --real
        [--minutes 9] [--workers 16] [--work W]

Random edits, the untouched model and the given adapters edit the same parents, which were kept out
of the adapters' training (same `--seed`). The first command judges by the bank's surrogate and
writes designers.json and pairs.jsonl; with `--real` the edits in pairs.jsonl and their parents are
trained, each with the same seed, and designers.json gets the measured gains. It can be repeated:
what is trained stays in trainings.jsonl. `--validate` writes so many edits of every module, all
five, through the validator, and times them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.core.designer_training.situations import GainJudge, Situations, split_bank
from se_rl.core.designer_training.skill import (
    EditPair,
    OneStep,
    Write,
    edit_pairs,
    held_out_situations,
    model_writer,
    one_step,
    random_writer,
    skill_of,
    wish_following,
)
from se_rl.core.designer_training.wishes import WISHES, Following
from se_rl.llm.adapter_file import read_adapter
from se_rl.llm.editing import CHANGES, EditTask, write_edits
from se_rl.llm.generator import DesignGenerator
from se_rl.llm.local import LocalDesigner
from se_rl.modules.design_bank.storage import load_bank
from se_rl.modules.kinds import KINDS
from se_rl.records.files import to_json
from se_rl.records.settings import preset
from se_rl_benchmarks.markdown_tables import signed, table
from se_rl_benchmarks.real_edits import RealEdit, read_edits, real_gains

PAIRS, TRAININGS = "pairs.jsonl", "trainings.jsonl"


def generators(options: argparse.Namespace) -> dict[str, DesignGenerator]:
    """The untouched model and each adapter, all of one loaded model."""
    base = LocalDesigner(options.model, threads=1, device=options.device)
    found = {"untouched": DesignGenerator(base.with_adapter(None))}
    for place in options.adapter:
        adapted = base.with_adapter_bytes(read_adapter(place).content)
        found[f"{place.stem} {adapted.adapter}"] = DesignGenerator(adapted)
    return found


def validity(generator: DesignGenerator, n: int, *, seed: int) -> dict[str, dict[str, float]]:
    """So many edits of the default's modules: the share that is valid, and seconds an edit."""
    found: dict[str, dict[str, float]] = {}
    for module, kind in KINDS.items():
        started, cpu, valid, made = time.perf_counter(), time.process_time(), 0, 0
        for turn, changes in enumerate(_changes(n)):
            task = EditTask(module, kind.default_source, changes=changes)
            for attempt in write_edits(generator, task, 8, seed=seed + turn):
                valid += attempt.is_valid
                made += 1
        found[module] = {
            "n": made,
            "valid": valid / made,
            "seconds": (time.perf_counter() - started) / made,
            "cpu_seconds": (time.process_time() - cpu) / made,
        }
    return found


def _changes(n: int) -> list[int]:
    """How many choices each call of eight edits makes anew, as often as in a run."""
    calls = max(1, -(-n // 8))
    return (np.searchsorted(np.cumsum(CHANGES), (np.arange(calls) + 0.5) / calls) + 1).tolist()


def judged(options: argparse.Namespace) -> dict[str, Any]:
    """All designers on the same kept-out parents, by the surrogate; writes the pairs."""
    bank = load_bank()
    weights = preset("quick").weights
    kept_out = split_bank(bank, seed=options.seed).kept_out
    judge = GainJudge(bank, bank.designs, weights)
    plain = Situations(bank, kept_out, judge, default_share=0.0, with_words=False)
    situations = held_out_situations(plain, options.parents, seed=options.seed)
    models = generators(options)
    writers: dict[str, Write] = {"random": random_writer(options.seed)}
    for name, generator in models.items():
        writers[name] = model_writer(generator, options.seed)
    skills: dict[str, OneStep] = {}
    wishes: dict[str, dict[str, Following]] = {}
    with (options.out / PAIRS).open("w") as file:
        for name, write in writers.items():
            pairs = edit_pairs(write, situations, judge, edits=options.edits)
            skills[name] = skill_of(pairs)
            for pair in pairs:
                file.write(json.dumps(asdict(_told(name, pair))) + "\n")
            wishes[name] = {}
            for wish in WISHES if options.wishes else ():
                wishes[name][wish] = wish_following(
                    write,
                    plain,
                    wish,
                    parents=options.wishes,
                    edits=options.edits,
                    seed=options.seed,
                )
    timed: dict[str, dict[str, dict[str, float]]] = {}
    for name, generator in models.items() if options.validate else ():
        timed[name] = validity(generator, options.validate, seed=options.seed)
    last = timed[list(timed)[-1]] if timed else {}
    return {
        "against": "surrogate",
        "seed": options.seed,
        "kept_out": len(kept_out),
        "valid": {module: one["valid"] for module, one in last.items()},
        "edits": timed,
        "one_step": {name: asdict(one) for name, one in skills.items()},
        "wishes": wishes and {name: _plain(one) for name, one in wishes.items()},
        "search": {},
    }


def _plain(found: dict[str, Following]) -> dict[str, Any]:
    return {wish: asdict(one) for wish, one in found.items()}


def _told(designer: str, pair: EditPair) -> RealEdit:
    task = pair.situation.task
    parent = dict(pair.situation.parent)
    return RealEdit(
        designer, task.code_type, pair.situation.name, parent, pair.source, pair.expected
    )


def trained(options: argparse.Namespace) -> dict[str, Any]:
    """The measured gains of all pairs that are trained, beside what was expected of them."""
    edits = read_edits(options.out / PAIRS)
    told = json.loads((options.out / "designers.json").read_text())
    gains = real_gains(
        edits,
        preset("quick", data=options.data),
        options.out / TRAININGS,
        seconds=60.0 * options.minutes,
        workers=options.workers,
        work=options.work,
    )
    measured: dict[str, Any] = {}
    for name in dict.fromkeys(edit.designer for edit in edits):
        own = [edit for edit in edits if edit.designer == name and edit.key in gains]
        found = one_step([gains[edit.key] for edit in own], [edit.parent for edit in own])
        measured[name] = asdict(found)
    return {**told, "against": "trainings", "expected": told["one_step"], "one_step": measured}


def page(told: dict[str, Any]) -> str:
    """The skills as a table."""
    rows = []
    for name, one in told["one_step"].items():
        low, high = one["ci95"]
        spread = f"[{signed(low)}, {signed(high)}]"
        share = f"{one['positive_share']:.0%}"
        rows.append([name, str(one["n"]), signed(one["mean_gain"]), spread, share])
    head = ("designer", "edits", "mean gain, bps", "95 % interval", "share above 0")
    return f"one edit of a kept-out parent, against {told['against']}\n\n" + table(head, rows)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("out/designers"))
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--adapter", type=Path, nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=0, help="of the adapters' training, too")
    parser.add_argument("--parents", type=int, default=60)
    parser.add_argument("--edits", type=int, default=8, help="of each parent")
    parser.add_argument("--wishes", type=int, default=0, help="parents to try each wish on")
    parser.add_argument("--validate", type=int, default=0, help="edits of each module")
    parser.add_argument("--real", action="store_true", help="train the pairs of the first command")
    parser.add_argument("--data", default="nasdaq100", help="where to train them")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--work", type=float, help="of a training, instead of the last rung's")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge, or train, and write what came out."""
    options = parsed(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.real and not (options.out / PAIRS).exists():
        sys.exit(f"{options.out / PAIRS} is not there; run the command without --real first")
    told = trained(options) if options.real else judged(options)
    (options.out / "designers.json").write_text(to_json(told) + "\n")
    print(page(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
