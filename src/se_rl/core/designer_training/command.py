"""`python scripts/train_designer.py`: train an adapter, measure it, and write it with its card.

    python scripts/train_designer.py --out out/designer --minutes 8 --device cuda

`--minutes` is the training's; measuring comes after it. `--adapter shipped` (or a file) goes on from
that adapter instead of a fresh one. The same command goes on with a training that was interrupted.
OUT gets state.safetensors and steps.jsonl, to go on with, and in the end adapter.safetensors,
card.md and card.json.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from se_rl.config import ConfigError
from se_rl.core.designer_training.card import (
    MOST_BYTES,
    AdapterFacts,
    AdapterFigures,
    card_numbers,
    card_page,
)
from se_rl.core.designer_training.situations import GainJudge, Situations
from se_rl.core.designer_training.skill import (
    OneStep,
    Write,
    edit_pairs,
    held_out_situations,
    model_writer,
    random_writer,
    skill_of,
    wish_following,
)
from se_rl.core.designer_training.training import DesignerPlan, DesignerTraining
from se_rl.core.designer_training.wishes import WISHES, Following
from se_rl.llm.adapter_file import AdapterFile, chosen_adapter
from se_rl.llm.backends import LlmError
from se_rl.llm.catalog import resolve, sha256_of
from se_rl.llm.generator import DesignGenerator
from se_rl.llm.local import LocalDesigner
from se_rl.modules.design_bank.storage import BANK_FILE, load_bank
from se_rl.records.code_hash import code_hash
from se_rl.records.files import to_json, write_bytes, write_text
from se_rl.records.settings import preset

WITHOUT_LIMIT = 60.0 * 24.0 * 365.0


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line: an option for every number of the plan."""
    parser = argparse.ArgumentParser(prog="train_designer.py", description="Train a designer.")
    parser.add_argument("--out", type=Path, default=Path("out/designer"))
    parser.add_argument("--model", default="smollm2", help="a local model's name or folder")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), help="default: cuda where there is one"
    )
    parser.add_argument("--threads", type=int, default=1, help="of a CPU")
    parser.add_argument(
        "--coarse", action="store_true", help="multiply in bfloat16 where it learns: faster"
    )
    parser.add_argument("--minutes", type=float, help="of training; what is missing goes on later")
    parser.add_argument("--parents", type=int, default=60, help="kept-out parents to measure by")
    parser.add_argument("--edits", type=int, default=8, help="edits of each of them")
    for one in fields(DesignerPlan):
        if isinstance(one.default, tuple):
            continue
        name = f"--{one.name.replace('_', '-')}"
        parser.add_argument(name, type=type(one.default), default=one.default)
    parser.add_argument("--layers", nargs="+", default=list(DesignerPlan.layers))
    return parser.parse_args(arguments)


def plan_of(options: argparse.Namespace) -> DesignerPlan:
    """The plan that the options ask for."""
    values = {one.name: getattr(options, one.name) for one in fields(DesignerPlan)}
    return replace(DesignerPlan(), **values | {"layers": tuple(options.layers)})


def writers_of(designer: LocalDesigner, given: AdapterFile | None, seed: int) -> dict[str, Write]:
    """Random edits, the untouched model, the adapter that was gone on from, and the one trained."""
    models = {"untouched": designer.with_adapter(None)}
    if given is not None:
        models[given.head.id] = designer.with_adapter_bytes(given.content)
    models[str(designer.adapter)] = designer
    writers = {"random": random_writer(seed)}
    for name, model in models.items():
        writers[name] = model_writer(DesignGenerator(model, mode="grammar"), seed)
    return writers


def measured(
    training: DesignerTraining, designer: LocalDesigner, *, parents: int, edits: int
) -> AdapterFigures:
    """The skill of each writer on the same kept-out parents, by both judges, and the wishes."""
    bank, out, seed = training.bank, training.split.kept_out, training.plan.seed
    whole = GainJudge(bank, bank.designs, training.weights)
    strict = GainJudge(bank, out, training.weights)
    plain = Situations(bank, out, whole, default_share=0.0, with_words=False)
    situations = held_out_situations(plain, parents, seed=seed)
    by_whole: dict[str, OneStep] = {}
    by_strict: dict[str, OneStep] = {}
    wishes: dict[str, dict[str, Following]] = {name: {} for name in WISHES}
    for name, write in writers_of(designer, training.given, seed).items():
        pairs = edit_pairs(write, situations, whole, edits=edits)
        by_whole[name] = skill_of(pairs)
        again = []
        for pair in pairs:
            gain = float(strict.gains(pair.situation, [pair.source])[0])
            again.append(replace(pair, expected=gain))
        by_strict[name] = skill_of(again)
        for wish, found in wishes.items():
            found[name] = wish_following(
                write, plain, wish, parents=max(2, parents // 4), edits=edits, seed=seed
            )
    return AdapterFigures(by_whole, by_strict, wishes)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, measure, write; what the user could mend is one line and exit code 2."""
    options = parsed(arguments)
    try:
        return _trained(options, sys.argv[1:] if arguments is None else arguments)
    except (ConfigError, LlmError) as error:
        print(f"train_designer: {error}", file=sys.stderr)
        return 2


def _trained(options: argparse.Namespace, words: Sequence[str]) -> int:
    if options.threads < 1:
        raise ConfigError(f"threads is {options.threads}; give 1 or more")
    started = time.monotonic()
    source = resolve(options.model)
    base = LocalDesigner(
        source, threads=options.threads, device=options.device, coarse_steps=options.coarse
    )
    bank = load_bank()
    training = DesignerTraining(
        base,
        bank,
        preset("quick").weights,
        plan_of(options),
        options.out,
        given=chosen_adapter(options.adapter, options.model),
    )
    print(
        f"{len(training.split.learned)} designs to learn from, {len(training.split.kept_out)} kept"
        f" out; {training.done} of {training.plan.steps} steps are done",
        flush=True,
    )
    limit = WITHOUT_LIMIT if options.minutes is None else options.minutes
    training.run(until=started + 60.0 * limit, say=lambda line: print(line, flush=True))
    seconds = time.monotonic() - started
    if not training.done:
        raise ConfigError(f"no step was made in {limit:g} minutes; give more --minutes or steps")
    content = training.designer.adapter_bytes(to_ship=True)
    write_bytes(options.out / "adapter.safetensors", content)
    if len(content) > MOST_BYTES:
        raise ConfigError(f"the adapter has {len(content):,} bytes of {MOST_BYTES:,}; lower --rank")
    designer = base.with_adapter_bytes(content)
    figures = measured(training, designer, parents=options.parents, edits=options.edits)
    facts = AdapterFacts(
        adapter=str(designer.adapter),
        file_bytes=len(content),
        base=base.name,
        base_sha256=source.base_sha256(),
        bank_sha256=sha256_of(BANK_FILE),
        modules=bank.head.modules,
        learned=len(training.split.learned),
        kept_out_designs=len(training.split.kept_out),
        command=shlex.join(["python", "scripts/train_designer.py", *_without_place(words)]),
        device=base.device,
        versions=_versions(),
        seconds=seconds,
        code=code_hash(),
    )
    page = card_page(facts, training.plan, training.rows, figures)
    write_text(options.out / "card.md", page)
    numbers = card_numbers(facts, training.plan, training.rows, figures)
    write_text(options.out / "card.json", to_json(numbers) + "\n")
    print(page)
    return 0


def _without_place(words: Sequence[str]) -> list[str]:
    """The command's words but `--out PLACE`, which changes nothing and is nobody's business."""
    place = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    place.add_argument("--out")
    return place.parse_known_args(words)[1]


def _versions() -> dict[str, str]:
    """Of the packages that numbers depend on; one that is on the path alone has none."""
    found = {}
    for name in ("torch", "transformers", "peft", "llguidance"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found
