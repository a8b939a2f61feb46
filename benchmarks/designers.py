"""Designers side by side: what one edit gains over its parent, how many are valid, how long they take.

    OMP_NUM_THREADS=1 python benchmarks/designers.py --out out/designers
        [--adapter FILE ...] [--parents 60] [--edits 8] [--wishes 15] [--validate 200] [--model smollm2]
    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/designers.py --out out/designers --real
        [--minutes 9] [--workers 16] [--work W] [--data csi100 --edits 3] [--packed sets.npz]
        [--results docs/results]

Random edits, the untouched model and the given adapters edit the same parents, which were kept out
of the adapters' training (same `--seed`). The first command judges by the bank's surrogate and
writes pairs.jsonl; with `--real` the edits in it, up to `--edits` of each parent, and their parents
are trained, each with the same seed, and the measured gains take the place of the expected ones; in
another world, `--data` (a real set's valid days: `packed_sets.py`), they stand beside them. It can
be repeated: what is trained stays in OUT. `--wishes` tries each wish on so many parents,
`--validate` writes so many edits of every module, all five, by the last designer, through the
validator, and times them; `--parents 0` does these alone. What is known is written to designers.json
and designers.md, in RESULTS too.
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
    Write,
    edit_pairs,
    held_out_situations,
    model_writer,
    one_step,
    random_writer,
    skill_of,
    wish_following,
)
from se_rl.core.designer_training.wishes import WISHES
from se_rl.llm.adapter_file import read_adapter
from se_rl.llm.editing import CHANGES, EditTask, write_edits
from se_rl.llm.generator import DesignGenerator
from se_rl.llm.local import LocalDesigner
from se_rl.modules.design_bank.storage import load_bank
from se_rl.modules.kinds import KINDS
from se_rl.records.files import to_json
from se_rl.records.settings import preset
from se_rl_benchmarks.designers_page import page
from se_rl_benchmarks.packed_sets import known_set
from se_rl_benchmarks.preferences import preferences
from se_rl_benchmarks.real_edits import RealEdit, differences, first_edits, read_edits, real_gains

PAIRS, TOLD = "pairs.jsonl", "designers.json"
HOME = "nasdaq100"
"""The world that the bank was measured in."""


def generators(options: argparse.Namespace) -> dict[str, DesignGenerator]:
    """The untouched model and each adapter, all of one loaded model."""
    base = LocalDesigner(options.model, threads=1, device=options.device)
    found = {"untouched": DesignGenerator(base.with_adapter(None))}
    for place in options.adapter:
        adapted = base.with_adapter_bytes(read_adapter(place).content)
        name = str(adapted.adapter)
        found[f"{place.stem} {name}" if name in found else name] = DesignGenerator(adapted)
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
    kept_out = split_bank(bank, seed=options.seed).kept_out
    judge = GainJudge(bank, bank.designs, preset("quick").weights)
    plain = Situations(bank, kept_out, judge, default_share=0.0, with_words=False)
    models = generators(options)
    writers: dict[str, Write] = {"random": random_writer(options.seed)}
    for name, generator in models.items():
        writers[name] = model_writer(generator, options.seed)
    told: dict[str, Any] = {"seed": options.seed, "kept_out": len(kept_out)}
    if options.parents:
        situations = held_out_situations(plain, options.parents, seed=options.seed)
        skills = {}
        with (options.out / PAIRS).open("w") as file:
            for name, write in writers.items():
                pairs = edit_pairs(write, situations, judge, edits=options.edits)
                skills[name] = asdict(skill_of(pairs))
                for pair in pairs:
                    file.write(json.dumps(asdict(_told(name, pair))) + "\n")
        told |= {"against": "surrogate", "one_step": skills, "expected": skills}
    if options.wishes:
        told["wishes"] = _wishes(writers, plain, options)
    if options.validate:
        name, generator = list(models.items())[-1]
        timed = validity(generator, options.validate, seed=options.seed)
        told["edits"] = {name: timed}
        told["valid"] = {module: one["valid"] for module, one in timed.items()}
    return told


def _wishes(
    writers: dict[str, Write], plain: Situations, options: argparse.Namespace
) -> dict[str, Any]:
    """How each designer follows wishes; a line for each designer is kept and not measured again."""
    place = options.out / f"wishes_{options.wishes}_{options.edits}_{options.seed}.jsonl"
    found: dict[str, Any] = {}
    for line in place.read_text().splitlines() if place.exists() else ():
        found |= json.loads(line)
    for name, write in writers.items():
        if name not in found:
            found[name] = _followed(write, plain, options)
            with place.open("a") as file:
                file.write(json.dumps({name: found[name]}) + "\n")
    return {name: found[name] for name in writers}


def _followed(write: Write, plain: Situations, options: argparse.Namespace) -> dict[str, Any]:
    found = {}
    for wish in WISHES:
        went = wish_following(
            write, plain, wish, parents=options.wishes, edits=options.edits, seed=options.seed
        )
        found[wish] = asdict(went)
    return found


def _told(designer: str, pair: EditPair) -> RealEdit:
    task = pair.situation.task
    parent = dict(pair.situation.parent)
    return RealEdit(
        designer, task.code_type, pair.situation.name, parent, pair.source, pair.expected
    )


def trained(options: argparse.Namespace) -> dict[str, Any]:
    """The measured gains of all pairs that are trained, and how far designers are apart."""
    edits = first_edits(read_edits(options.out / PAIRS), options.edits)
    changes, dataset = known_set(options.data, options.packed)
    config = preset("quick", **changes)
    work = options.work or config.rungs.last.work
    gains = real_gains(
        edits,
        config,
        options.out / f"trainings_{options.data}_{work:g}.jsonl",
        seconds=60.0 * options.minutes,
        workers=options.workers,
        work=work,
        dataset=dataset,
    )
    measured: dict[str, Any] = {}
    for name in dict.fromkeys(edit.designer for edit in edits):
        own = [edit for edit in edits if edit.designer == name and edit.key in gains]
        found = one_step([gains[edit.key] for edit in own], [edit.parent for edit in own])
        measured[name] = asdict(found)
    told = {"work": work, "one_step": measured, "differences": differences(edits, gains)}
    if options.data != HOME:
        return {"elsewhere": {**known(options).get("elsewhere", {}), options.data: told}}
    return {"against": "trainings", **told, "preferences": preferences(edits, gains)}


def known(options: argparse.Namespace) -> dict[str, Any]:
    """What earlier commands have told."""
    place = options.out / TOLD
    empty: dict[str, Any] = {"valid": {}, "one_step": {}, "search": {}}
    return empty | json.loads(place.read_text()) if place.exists() else empty


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("out/designers"))
    parser.add_argument("--results", type=Path, help="where else to write what is known")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--adapter", type=Path, nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=0, help="of the adapters' training, too")
    parser.add_argument("--parents", type=int, default=60)
    parser.add_argument("--edits", type=int, default=8, help="of each parent")
    parser.add_argument("--wishes", type=int, default=0, help="parents to try each wish on")
    parser.add_argument("--validate", type=int, default=0, help="edits of each module")
    parser.add_argument("--real", action="store_true", help="train the pairs of the first command")
    parser.add_argument("--data", default=HOME, help="where to train them")
    parser.add_argument("--packed", type=Path, help="real sets, packed, instead of their files")
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
    told = known(options) | (trained(options) if options.real else judged(options))
    for folder in filter(None, (options.out, options.results)):
        (folder / TOLD).write_text(to_json(told) + "\n")
        (folder / "designers.md").write_text(page(told))
    print(page(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
