"""A made-up run for the tests of its page: an archive written through its own API, and results where it has ended."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from se_rl.records.archive import Archive
from se_rl.records.entries import (
    DEFAULT,
    Adapter,
    Candidate,
    Evaluation,
    Instruction,
    ModelCall,
    StoredStanding,
    design_id,
    sha256,
)
from se_rl.records.files import to_json
from se_rl.records.results import OURS

HOSTILE = "</script><script>alert(1)</script>{{ 7 * 7 }}{% raw %}<img src=x onerror=alert(2)>"
MODULES = ("reward", "network", "imagination")
OPERATORS = ("draft", "tweak", "rewrite", "simplify")
ROUNDS, PER_ROUND = 3, 12
SE = 0.07
"""The standard error of every standing."""
DEFAULT_LEVELS = (0.5, 0.6, 0.7)
"""What the default earns at each rung, bps."""
BEST = 27
"""The proposal that wins; its neighbours fail in one way or another."""


def reward_source(number: int) -> str:
    """A reward as a model might write it; the last one brings text that tries to leave the page."""
    lines = [
        "def reward(step):",
        "    move = step.no_order_mid - step.no_order_mid_before - step.news",
        "    own = step.traded_share * (step.fill_price - step.no_order_mid_before) + step.inventory_left * move",
        f"    haste = {0.001 * number:.3f} * step.own_impact * step.traded_share",
        "    return own - haste",
    ]
    if number == BEST:
        lines.insert(1, f"    # {HOSTILE}")
    return "\n".join(lines) + "\n"


def make_run(
    folder: Path, *, ended: bool = True, rounds: int = ROUNDS, isolation: str = "strong"
) -> Path:
    """Write a run of `rounds` outer iterations, with its results where it has `ended`."""
    with Archive.open(folder / "archive.sqlite") as archive:
        config = {
            "data": "nasdaq100",
            "preset": "quick",
            "iterations": ROUNDS,
            "designs": ROUNDS * PER_ROUND,
            "seed": 7,
        }
        data = {
            "name": "nasdaq100",
            "synthetic": True,
            "sha256": "fa8d015c" * 8,
            "first_date": 20240102,
            "last_date": 20240325,
        }
        started = {
            "config": config,
            "data": data,
            "llm": "smollm2-135m",
            "seed": 7,
            "code_hash": "c0de" * 8,
        }
        archive.append("run_started", "run", started | {"version": "0.1.0", "isolation": isolation})
        archive.append(
            "estimate", "estimate", {"seconds": 300.0, "text": "About 5 minutes on this machine."}
        )
        ids = _start(archive)
        for step in range(1, rounds + 1):
            _round(archive, ids, step)
        for world in ("static", "dynamic"):
            archive.append(
                "execution", f"execution {world}", _execution(ids[min(BEST, len(ids) - 1)], world)
            )
        told = simulated_order(ids[min(BEST, len(ids) - 1)])
        archive.append("simulated_order", "simulated order", told)
        if ended:
            archive.open_test(key="test", data_hash="fa8d015c" * 8, candidate=ids[BEST])
            archive.append(
                "finished",
                "finished",
                {"stop_reason": "designs: 36 of 36 proposed", "best": ids[BEST]},
            )
            (folder / "results.json").write_text(
                to_json(results(ids[BEST], isolation=isolation)), encoding="utf-8"
            )
    return folder


def _start(archive: Archive) -> list[str]:
    """The default design, trained at every rung, and the first instructions."""
    first = Candidate(design_id({}), {}, DEFAULT)
    archive.add_candidate(first, {})
    for rung in range(3):
        _evaluate(archive, first.id, rung, DEFAULT_LEVELS[rung])
    for kind, text in {
        "macro": "Beat TWAP on the same orders.",
        "reward": "Pair each step with TWAP's.",
    }.items():
        archive.add_instruction(Instruction(sha256(text)[:12], kind, text, DEFAULT))
        archive.append(
            "credit",
            f"credit {kind}",
            {"instruction": sha256(text)[:12], "credit": -0.12, "uses": 9},
        )
    return [first.id]


def _evaluate(archive: Archive, name: str, rung: int, level: float, *, reason: str = "") -> None:
    """One training per seed; its gain over another design is the difference of their levels and a little luck."""
    days, market = np.repeat(np.arange(6), 4), np.random.default_rng(rung).normal(size=24)
    luck = np.random.default_rng([rung, int(sha256(name)[:6], 16)])
    for seed in range(1 + rung):
        static = level + market + 0.1 * luck.normal(size=24)
        arrays: dict[str, Any] = {
            "static": static,
            "static_day": days,
            "dynamic": 4.0 + static,
        }
        packed = io.BytesIO()
        np.savez(packed, **arrays)
        scores = {
            key: float(values.mean()) for key, values in arrays.items() if key != "static_day"
        }
        done = Evaluation(
            name,
            rung,
            seed,
            "failed",
            reason,
            work=10.0 * 3**rung,
            seconds=8.0 * 3**rung,
            isolation="strong",
        )
        if not reason:
            curve = archive.put_blob(json.dumps(_curve(level)).encode())
            done = replace(
                done,
                status="ok",
                scores=scores,
                arrays=archive.put_blob(packed.getvalue()),
                curve=curve,
            )
        archive.add_evaluation(done, key=f"{name} {rung} {seed}")
    if not reason:
        _stand(archive, name, rung, level - DEFAULT_LEVELS[rung])


def _stand(archive: Archive, name: str, rung: int, score: float) -> None:
    """The standing that the search would store: the page shows it as it is."""
    se = SE if score else 0.0
    bounds = (score - 1.96 * se, score + 1.96 * se)
    by_seed = (score,) * (1 + rung)
    parts = {"specific": score + 0.1, "risk": -0.1, "small tick, 1-3 %": score}
    standing = StoredStanding(
        name,
        rung,
        1 + rung,
        score,
        se,
        bounds,
        by_seed,
        {"static": score, "dynamic": score},
        gain=None if rung == 2 else score / 2,  # the parents of finalists did not come so far
        gain_se=None if rung == 2 else SE,
        by_part=parts,
        part_se=dict.fromkeys(parts, 0.05),
    )
    archive.append("standing", standing.key, asdict(standing))


def _curve(level: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for step in range(40):
        phase = "static" if step < 12 else "dynamic" if step < 24 else "joint"
        alpha = 0.5 + (0.004 * (step - 24) if step > 24 else 0.0)
        gain = level * (1.0 - 0.9 ** (step + 1)) * 1e-3
        row = {"phase": phase, "work": 3.0 * step, "alpha": alpha, "beta": 1.0 - alpha}
        row |= {"held_back": 1e3 * gain} if step in (20, 39) else {}
        row |= {"reward_static": gain} if phase != "dynamic" else {}
        row |= {"reward_dynamic": 4 * gain - 1e-3} if phase != "static" else {}
        row |= {"loss_0": 0.8, "loss_1": 0.4} if phase == "joint" else {"loss_0": 0.9}
        rows.append(row)
    return rows


def _round(archive: Archive, ids: list[str], step: int) -> None:
    """One outer iteration: proposals of every fate, then what the search says of it."""
    adapter = f"adapter-{step - 1}" if step > 1 else ""
    if adapter:
        archive.add_adapter(Adapter(adapter, "", sha256(adapter), step, {"kl": 0.01 * step}))
    asked = [{"role": "user", "content": f"Write a module for round {step}. {HOSTILE}"}]
    chat = archive.put_blob(json.dumps(asked).encode())
    archive.add_call(
        ModelCall(f"call-{step}", "smollm2-135m", adapter, PER_ROUND, 4_000, 2_500, 0.0, 21.0, chat)
    )
    rng = np.random.default_rng(step)
    for place in range(PER_ROUND):
        number = len(ids)
        sound = [
            each
            for each in range(max(0, number - 12), number)
            if _fate(each) == "scored" and each != 13
        ] or [0]
        parent = archive.candidate(ids[sound[int(rng.integers(len(sound)))]])
        ids.append(
            _propose(archive, ids, parent, step=step, place=place, adapter=adapter, prompt=chat)
        )
    best, score = ids[(10, 20, BEST)[step - 1]], (0.06, 0.21, 0.41)[step - 1]
    told = {
        "iteration": step,
        "of": ROUNDS,
        "best": best,
        "score": score,
        "se": 0.075,
        "ema": 0.1 * step,
        "valid": 8 + step,
    }
    told |= {
        "proposed": PER_ROUND,
        "repeated": 1,
        "failed": 1,
        "mean_gain": 0.04 * step - 0.06,
        "adapter": adapter,
    }
    told |= {"distinct": 0.9, "modules": {"reward": 4, "network": 4, "imagination": 4}}
    moved = f"The held best moved to {best}: a reward that charges for its own impact."
    archive.append("iteration", f"iteration {step}", told | {"text": moved})


def _fate(number: int) -> str:
    """Every eighth is not valid, every ninth fails in training, every eleventh repeats another."""
    if number in (0, BEST):
        return "scored"
    fates = ((8, "not valid"), (9, "failed"), (11, "repeat"))
    return next((fate for every, fate in fates if number % every == 0), "scored")


def _propose(
    archive: Archive,
    ids: list[str],
    parent: Candidate,
    *,
    step: int,
    place: int,
    adapter: str,
    prompt: str,
) -> str:
    """One proposal: a module of its parent changed, then trained as far as it deserves."""
    number = len(ids)
    module, fate = MODULES[number % 3], _fate(number)
    text = (
        reward_source(number)
        if module == "reward"
        else f"# {module} {number}\n" + reward_source(number)
    )
    modules = {**parent.modules, module: sha256(text)}
    reason = f"shape: returned [{number}], wanted [B] <b>" if fate == "not valid" else ""
    macro, micro = (
        sha256(text)[:12]
        for text in ("Beat TWAP on the same orders.", "Pair each step with TWAP's.")
    )
    candidate = Candidate(
        design_id(modules),
        modules,
        OPERATORS[number % 4],
        (parent.id,),
        module,
        step,
        f"call-{step}",
        place,
        macro,
        micro,
        "smollm2-135m",
        adapter,
        reason,
        ids[number - 3] if fate == "repeat" else "",
        (0.1, 0.2),
        prompt,
    )
    archive.add_candidate(candidate, {module: text})
    if fate == "failed":
        _evaluate(
            archive, candidate.id, 0, 0.0, reason=f"diverged after {number} updates: loss is nan"
        )
    if fate != "scored":
        return candidate.id
    level = (
        1.2
        if number == BEST
        else 0.4 + 0.012 * number - (3.0 if number == 13 else 0.03 * (number % 5))
    )
    for rung in range(3 if number == BEST else 1 + (number % 4 == 1)):
        _evaluate(archive, candidate.id, rung, level)
    if number % 4 != 1 and number != BEST:
        payload = {
            "candidate": candidate.id,
            "rung": 0,
            "reason": f"cannot reach the best: z {number / 10}",
        }
        archive.append("dropped", f"dropped {candidate.id}", payload)
    return candidate.id


def _execution(candidate: str, world: str) -> dict[str, Any]:
    rng = np.random.default_rng(len(world))
    minutes = 60
    price = 100.0 * np.exp(np.cumsum(rng.normal(0.0, 8e-4, minutes)))
    fills = rng.dirichlet(np.where(price > np.median(price), 3.0, 0.6))
    paid = float(fills @ price)
    return {
        "candidate": candidate,
        "world": world,
        "side": "sell",
        "minutes": list(range(minutes)),
        "price": price.round(4).tolist(),
        "fills": fills.tolist(),
        "inventory": (1.0 - np.cumsum(fills)).tolist(),
        "twap_inventory": (1.0 - np.arange(1, minutes + 1) / minutes).tolist(),
        "fill_price": paid,
        "benchmark_price": float(price.mean()),
    }


def estimate(mean: float, half: float) -> dict[str, Any]:
    """A mean with its interval as results state them."""
    return {"mean": mean, "se": half / 2, "ci95": [mean - half, mean + half]}


def score_parts(mean: float, half: float) -> dict[str, Any]:
    """A score and its parts as results state them."""
    gains = {
        name: estimate(mean, half)
        for name in ("score", "history", "specific", "whole", "simulated")
    }
    cells = {
        "small tick, 1-3 %": estimate(mean + 1, half),
        "stressed twin, 3-10 %": estimate(mean, half),
    }
    return gains | {"risk_cost": 0.16, "tracking_error": 4.0, "cells": cells}


def method(over: float, half: float = 0.3) -> dict[str, Any]:
    """One row of the table of methods."""
    row = {
        "PA": over,
        "PA_std": 26.6,
        "WR": 0.53,
        "GLR": 0.95,
        "AFI": 0.021,
        "ci95": [over - half, over + half],
    }
    shares = {"over_TWAP": 1.0, "over_TWAP_specific": 0.9, "over_TWAP_common": 0.1}
    row |= {name: estimate(share * over, half) for name, share in shares.items()}
    return row | {"score": estimate(0.8 * over, half), "tracking_error": 3.5}


def results(
    best: str, *, over: float = 0.41, half: float = 0.3, isolation: str = "strong"
) -> dict[str, Any]:
    """What an ended run writes as results.json."""
    earned = {
        "TWAP": 0.0,
        "VWAP": 0.0,
        "XS ridge": 1.05,
        "foresight bound": 90.0,
        OURS: 1.2,
        "PPO strong": 0.79,
        "PPO naive": 0.1,
    }
    rows = {name: method(pa, 0.3 if pa else 0.0) for name, pa in earned.items()}
    for name in rows.keys() - {OURS}:
        rows[name]["ours_over"] = estimate(1.2 - earned[name], 0.3)
    rows[OURS]["seed_sd"] = 0.08
    simulated = {
        size: {
            name: {
                "cost_bps": 12.0 * scale - saved,
                "saved_bps": saved,
                "saved_ci95": [saved - 0.8, saved + 0.8],
            }
            | {"saved_share": saved / 12.0 / scale, "passive": 0.7, "forced": 0.01}
            for name, saved in {
                "TWAP": 0.0,
                "grid constant": 3.9,
                OURS: 5.2,
                "PPO strong": 4.4,
            }.items()
        }
        for size, scale in (("x1", 1.0), ("x2", 1.7))
    }
    finalist = {"candidate": best, "score": 0.6, "ci95": [0.35, 0.85], "by_seed": [0.5, 0.6, 0.7]}
    work = [30.0 * step for step in range(1, 11)]
    return {
        "final_metrics": method(1.2)
        | {
            "over_default": estimate(over, half),
            "score": score_parts(1.1, 0.2),
            "score_over_default": score_parts(over, half),
        },
        "scores": {OURS: score_parts(1.1, 0.2), "PPO strong": score_parts(0.7, 0.2)},
        "best": best,
        "verdict": f"Design {best} earns +0.41 bps [+0.11, +0.71] over the default PPO on the sealed test days",
        "baselines": rows,
        "dynamic": simulated,
        "designs": {"proposed": 36, "valid": 32, "scored": 26, "failed": 3, "repeated": 3},
        "stop_reason": "designs: 36 of 36 proposed",
        "test_openings": 1,
        "spa_p": 0.012,
        "selection": {"tried": 27, "hurdle_bps": 0.22, "spa_p_over_default": 0.031},
        "seeds": {"search": 7, "trainings": [0, 1, 2]},
        "isolation": isolation,
        "llm": {
            "name": "smollm2-135m",
            "adapter": "adapter-2",
            "calls": 3,
            "tokens_in": 12000,
            "tokens_out": 7500,
            "usd": 0.0,
        },
        "data": {
            "name": "nasdaq100",
            "synthetic": True,
            "sha256": "fa8d015c" * 8,
            "first_date": 20240102,
        }
        | {
            "last_date": 20240325,
            "train_days": 36,
            "valid_days": 11,
            "test_days": 11,
            "symbols": 100,
        },
        "config": {"data": "nasdaq100", "preset": "quick", "seed": 7},
        "finalists": [finalist | {"rungs": {"0": 0.7, "1": 0.65, "2": 0.6}}],
        "learning": {
            "work": work,
            "best": [1 - 0.8**k for k in range(10)],
            "default": [0.7 - 0.7 * 0.85**k for k in range(10)],
        },
        "notes": ["prices are unadjusted"],
        "times": {"minutes": 4.2},
        "by_day": {
            "dates": [20240311, 20240312, 20240313],
            "TWAP": [1.0, 2.0, 3.0],
            OURS: [2.0, 1.5, 4.0],
            "PPO strong": [1.5, 2.0, 3.0],
            "foresight bound": [50.0, 60.0, 70.0],
        },
        "order_details": order_details(),
        "version": "0.1.0",
        "code_hash": "c0de" * 8,
    }


def order_details() -> dict[str, Any]:
    """The orders of our method as results state them."""
    group = {"orders": 40, "PA": [-20.0, -5.0, 1.0, 6.0, 22.0], "ci95": [0.2, 1.8]}
    buy_and_sell = [group | {"name": name, "over_TWAP": 1.0} for name in ("buy", "sell")]
    symbols = [
        group | {"name": f"S{number} {HOSTILE}", "over_TWAP": 0.1 * number} for number in range(30)
    ]
    band = {"steps": [1, 2], "left": [[0.2, 0.0], [0.3, 0.0], [0.4, 0.0], [0.5, 0.0], [0.7, 0.0]]}
    return {
        "method": OURS,
        "groups": {"side": buy_and_sell, "symbol": symbols, "time of day": [buy_and_sell[0]]},
        "inventory": {OURS: band},
    }


def simulated_order(candidate: str) -> dict[str, Any]:
    """One simulated order of two steps, and one step after it, as the journal stores it."""
    return {
        "candidate": candidate,
        "side": "sell",
        "market": "small tick",
        "size": 0.2,
        "tick_bps": 2.0,
        "mid": [0.0, -1.0, -4.0, -2.0],
        "free": [0.0, 0.0, 1.0, 1.0],
        "fill": [-1.0, None],
        "traded": [1.0, 0.0],
        "passive": [0.5, 0.0],
        "left": [0.0, 0.0],
        "ticks": [[-1, 1], [-2, 1], [-3, 2], [-1, 1]],
        "lots": [[-5, 7], [-1, 2], [-3, 4], [-5, 6]],
    }
