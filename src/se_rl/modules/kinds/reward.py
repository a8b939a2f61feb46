"""LLM4Reward: the function that scores one step of an execution."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from se_rl.modules.contracts import ALWAYS, REWARD_FIELDS, Contract
from se_rl.modules.default_sources import source_of_default
from se_rl.modules.errors import SourceRefused, instead, need
from se_rl.modules.grammar import Rules, one_of
from se_rl.modules.kinds.kind import Floats, Load, ModuleKind, Recorded

if TYPE_CHECKING:
    from torch import Tensor

    from se_rl.modules.module_probe import ModuleProbe

RANKS_BADLY = 0.2
"""A reward whose rank correlation with known merit is below this gets a warning."""
RANKS_BACKWARDS = -0.5
"""A reward whose rank correlation is below this is refused: it would pay for bad trading."""

EXAMPLES = (
    """def reward(step):
    own = step.traded_share * (step.fill_price - step.mid_before)
    own = own + step.inventory_left * (step.mid_after - step.mid_before - step.news)
    twap = step.twap_traded_share * (step.twap_fill_price - step.no_order_mid_before)
    return own - twap
""",
    """import torch


def reward(step):
    gain = step.traded_share * (step.fill_price - step.no_order_mid)
    risk = step.volatility * (step.inventory_left - step.time_left).square()
    patience = step.half_spread * step.passive_share * torch.sigmoid(2.0 * step.imbalance)
    return gain - 0.1 * risk + 0.5 * patience
""",
)

CONTRACT = Contract(
    code_type="reward",
    title="LLM4Reward",
    entry="reward",
    signature="def reward(step) -> torch.Tensor",
    task="Score one step of executing a parent order, for many orders at once;"
    " the agent maximises the sum.",
    rules=(
        "step has one float tensor of shape [B] per field; return a float tensor of shape [B]",
        "each row depends on its own row only",
        "finite everywhere; its scale does not matter, the framework normalises it",
        *ALWAYS,
    ),
    examples=EXAMPLES,
    glossary=tuple(
        f"step.{name}: {field.unit}, {field.low:g} to {field.high:g}; {field.help}"
        for name, field in REWARD_FIELDS.items()
    ),
)

RULES: Rules = {
    "start": (
        "def reward(step):\n"
        "    value = step.traded_share * (step.fill_price - <reference>)<tilt>\n"
        "<mark><pair><term><term><term>    return <shape>\n",
    ),
    "reference": one_of(
        "1.0 step.mid_before step.mid_after step.benchmark_price step.no_order_mid"
        " step.no_order_mid_before step.twap_fill_price"
    ),
    "tilt": ("", " * (1.0 + <coefficient> * <state>)"),
    "state": one_of("step.time_left step.inventory_left step.imbalance step.imbalance.abs()"),
    "mark": ("", "    value = value + <weight> * step.inventory_left * (<move><news>)\n"),
    "move": ("step.mid_after - step.mid_before", "step.no_order_mid - step.no_order_mid_before"),
    "pair": (
        "",
        "    value = value - <weight> * step.twap_traded_share"
        " * (step.twap_fill_price - <reference>)\n<twap_mark>",
    ),
    "twap_mark": (
        "",
        "    value = value - <weight> * step.twap_inventory_left"
        " * (step.no_order_mid - step.no_order_mid_before<news>)\n",
    ),
    "news": ("", " - step.news"),
    "weight": one_of("0.25 0.5 0.75 1.0"),
    "term": ("", "    value = value <sign> <coefficient> * <price> * <quantity><gate>\n"),
    "sign": ("+", "-"),
    "coefficient": one_of("0.05 0.1 0.2 0.5 1.0 2.0 5.0"),
    "price": (
        "0.0001",
        "step.half_spread",
        "step.volatility",
        "step.own_impact",
        "(200.0 * step.news.square())",
    ),
    "quantity": (
        "step.passive_share",
        "step.forced_share",
        "step.traded_share",
        "step.inventory_left",
        "step.inventory_left.square()",
        "step.traded_share.square()",
        "(step.inventory_left - step.time_left)<size>",
        "(step.inventory_left - step.twap_inventory_left)<size>",
        "(step.traded_share - step.twap_traded_share)<size>",
    ),
    "size": (".abs()", ".square()"),
    "gate": (
        "",
        " * step.imbalance",
        " * torch.sigmoid(<steep> * step.imbalance)",
        " * step.time_left",
        " * (1.0 - step.time_left)",
        " * step.half_spread / (step.half_spread + step.volatility + 0.00001)",
        " * step.volatility / (step.half_spread + step.volatility + 0.00001)",
    ),
    "steep": one_of("1.0 2.0 5.0"),
    "shape": (
        "value",
        "value.clamp(-<cap>, <cap>)",
        "torch.tanh(<squash> * value)",
        "torch.where(value < 0.0, <aversion> * value, value)",
    ),
    "cap": one_of("0.0005 0.001 0.002 0.005"),
    "squash": one_of("100.0 300.0 1000.0 3000.0"),
    "aversion": one_of("0.5 1.5 2.0 3.0"),
}

DEFAULT_RULES: Rules = {
    "default": (
        "def reward(step):\n"
        "    move = <move><news>\n"
        "    own = step.traded_share * (step.fill_price - <reference>)"
        " + <part>step.inventory_left * move\n"
        "    twap = step.twap_traded_share * (step.twap_fill_price - <reference>)"
        " + <part>step.twap_inventory_left * move\n"
        "<own_term><own_term>    return own - <part>twap\n",
    ),
    "part": ("", "0.25 * ", "0.5 * ", "0.75 * "),
    "own_term": ("", "    own = own <sign> <coefficient> * <price> * <quantity><gate>\n"),
}


def check_fields(function: ast.FunctionDef) -> None:
    """A reward reads only fields that a step has."""
    arguments = function.args.posonlyargs + function.args.args
    if not arguments:  # `def reward(*inputs)`: no name stands for the step
        return
    step = arguments[0].arg
    for node in ast.walk(function):
        value = getattr(node, "value", None)
        if not (isinstance(value, ast.Name) and value.id == step):
            continue
        if isinstance(node, ast.Subscript):
            raise SourceRefused(
                node.lineno, f"{step} is no dictionary; write `{step}.fill_price` for a field"
            )
        if isinstance(node, ast.Attribute):
            _check_field(node, step)


def _check_field(node: ast.Attribute, step: str) -> None:
    if node.attr not in REWARD_FIELDS:
        raise SourceRefused(
            node.lineno, f"{step} has no field {node.attr}{instead(node.attr, REWARD_FIELDS)}"
        )
    if not isinstance(node.ctx, ast.Load):
        raise SourceRefused(
            node.lineno,
            f"{step}.{node.attr} may not be changed; assign to a variable of your own",
        )


def check_reward(load: Load, recorded: Recorded, trial: ModuleProbe) -> Floats:
    """Rows of every kind, then whether episode sums rank known schedules as their merit does."""
    import torch

    from se_rl.modules.module_probe import mixed, scaled

    reward = load()

    def call(rows: Tensor) -> Any:
        return reward(SimpleNamespace(**dict(zip(REWARD_FIELDS, rows.unbind(1), strict=True))))

    worlds: dict[str, Tensor] = {}  # [schedule, field, step, order]
    columns: dict[str, Tensor] = {}  # [field, row]
    for name, array in recorded.items():
        if name.startswith("fields_"):
            world = name.removeprefix("fields_")
            worlds[world] = torch.tensor(array)
            columns[world] = worlds[world].transpose(0, 1).flatten(1)
    joined = torch.cat(list(columns.values()), 1)
    rows = joined[:, mixed(joined.shape[1])].T
    values = trial.batches(call, rows, edges=_edges(), tail=())
    varies = float(values.max() - values.min()) > 1e-6 * float(values.abs().max())
    need(
        varies,
        f"reward is {float(values[0]):.3g} on all recorded rows;"
        " let it depend on the fields of step",
    )
    correlations = []
    for name, fields in worlds.items():
        shape = fields[:, 0].shape
        each = trial.run(call, columns[name].T, what=f"the {name} world", shape=(shape.numel(),))
        totals = each.view(shape).double().sum(1)  # [schedule, order]
        correlations.append(_ranking(totals, torch.tensor(recorded[f"merit_{name}"])))
    _check_ranking(float(np.mean(correlations)), trial)
    return scaled(values)


def _edges() -> dict[str, Tensor]:
    """Rows at the ends of the fields' ranges."""
    import torch

    from se_rl.modules.module_probe import normal

    low = torch.tensor([field.low for field in REWARD_FIELDS.values()])
    high = torch.tensor([field.high for field in REWARD_FIELDS.values()])
    corners = torch.where(normal((64, len(low)), 1) > 0, low, high)
    nothing = torch.zeros(1, len(low)).clamp(low, high)
    return {
        "fields of 0 (or the end of the range next to it)": nothing,
        "fields at the ends of their ranges": torch.cat([low[None], high[None], corners]),
    }


def _ranking(totals: Tensor, merit: Tensor) -> float:
    """Kendall's rank correlation of episode sums [schedule, order] with merit [schedule], over
    schedules, mean of all windows."""
    import torch

    # both sides of a window together: its drift is nobody's merit
    totals = totals.view(len(totals), 2, -1).mean(1)  # [schedule, window]
    better, worse = torch.where(merit[:, None] > merit[None])
    gap = totals[better] - totals[worse]
    return float(torch.where(gap.abs() > 1e-6 * totals.abs().max(), gap.sign(), 0.0).mean())


def _check_ranking(correlation: float, trial: ModuleProbe) -> None:
    seen = f"rank correlation {correlation:.2f} with known good and bad trading"
    need(
        correlation >= RANKS_BACKWARDS,
        f"reward ranks trading backwards: {seen} (refused below {RANKS_BACKWARDS}); turn its sign,"
        " a higher fill_price is better whatever the side",
    )
    if correlation < RANKS_BADLY:
        mend = "pay for traded_share at a good fill_price"
        trial.warnings.append(f"ranks_badly: {seen}, {RANKS_BADLY} or more is wanted; {mend}")


REWARD = ModuleKind(
    contract=CONTRACT,
    part="reward",
    default_source=source_of_default("reward"),
    rules=RULES,
    default_rules=DEFAULT_RULES,
    check=check_reward,
    check_entry=check_fields,
    draws="never",
    may_be_double=True,
)
