"""LLM4Imagine: new market paths from real ones, for the agent to train on."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from se_rl.data.bar_faults import FaultKind, bar_fault
from se_rl.modules.contracts import LIMITS, ONLY_TORCH, Contract
from se_rl.modules.default_sources import source_of_default
from se_rl.modules.errors import need
from se_rl.modules.grammar import Rules, one_of
from se_rl.modules.kinds.kind import BEHAVIOUR, Floats, Load, ModuleKind, Recorded

if TYPE_CHECKING:
    from torch import Tensor

    from se_rl.modules.module_probe import ModuleProbe

SEEDS = 8
"""Times that every recorded day is imagined."""
_FAULTS: dict[FaultKind, str] = {
    "price": "prices that are not positive; move prices by factors (exp of log moves)",
    "volume": "negative volume; use clamp(min=0)",
    "range": "no low <= open, close <= high; take high as amax and low as amin of the four prices",
}

EXAMPLES = (
    """import torch


def imagine(bars, generator):
    stretch = torch.exp(0.3 * torch.randn((bars.shape[0], 1, 1), generator=generator,"""
    """ dtype=bars.dtype))
    start = bars[:, :1, :1]
    prices = start * (bars[..., :4] / start) ** stretch
    return torch.cat([prices, bars[..., 4:]], -1)
""",
    """import torch


def imagine(bars, generator):
    steps, block = bars.shape[1], 20
    start, before = bars[:, :1, :1], torch.cat([bars[:, :1, :1], bars[:, :-1, 3:4]], 1)
    moves = (bars[..., :4] / before).log()
    order = torch.randperm(-(-steps // block), generator=generator)
    index = (order[:, None] * block + torch.arange(block)).flatten()
    index = index[index < steps]
    moves, volume = moves[:, index], bars[:, index, 4:]
    path = moves[..., 3:4].cumsum(1)
    prices = start * torch.exp(path - moves[..., 3:4] + moves)
    return torch.cat([prices, volume], -1)
""",
)

CONTRACT = Contract(
    code_type="imagination",
    title="LLM4Imagine",
    entry="imagine",
    signature="def imagine(bars, generator) -> torch.Tensor",
    task="Make new, plausible market paths from real ones for the agent to train on.",
    rules=(
        "bars has shape [B, T, 5]: open, high, low, close (positive prices) and volume;"
        " return the same shape",
        "low <= open, close <= high; prices positive, volume not negative, all finite",
        "random numbers only from the torch.Generator handed in;"
        " the result must depend on it or on bars",
        "no drift that pays one side: the mean log return over the batch stays near that of the"
        " bars",
        ONLY_TORCH,
    ),
    examples=EXAMPLES,
)

RULES: Rules = {
    "start": (
        "def imagine(bars, generator):\n"
        "    rows, steps, kind = bars.shape[0], bars.shape[1], bars.dtype\n"
        "    volume, logs = bars[..., 4:], bars[..., :4].log()\n"
        "    start = logs[:, :1, :1]\n"
        "    moves = logs - torch.cat([start, logs[:, :-1, 3:]], 1)\n"
        "    drift = moves[..., 3:].mean()\n"
        "<change><more><more>"
        "    moves = moves - moves[..., 3:].mean() + drift\n"
        "    before = start + moves[..., 3:].cumsum(1) - moves[..., 3:]\n"
        "    prices = torch.exp(before + moves)\n"
        "    top, bottom = prices.amax(-1, keepdim=True), prices.amin(-1, keepdim=True)\n"
        "    return torch.cat([prices[..., :1], top, bottom, prices[..., 3:], volume], -1)\n",
    ),
    "more": ("", "<change>"),
    "change": (
        "    turned = torch.rand((<scope>, 1, 1), generator=generator) < <chance>\n"
        "    moves = torch.where(turned, -moves, moves)\n",
        "    size = torch.randn((<scope>, 1, 1), generator=generator, dtype=kind)\n"
        "    moves = moves * torch.exp(<spread> * size)\n",
        "    block = <block>\n"
        "    first = torch.randint(0, steps, (steps // block + 1, 1), generator=generator)\n"
        "    index = (first + torch.arange(block)).flatten()[:steps] % steps\n"
        "    moves, volume = moves[:, index], volume[:, index]\n",
        "    spell = <block>\n"
        "    storm = torch.rand((<scope>, steps // spell + 1, 1), generator=generator) < <chance>\n"
        "    moves = moves * (<calm> + <storm> * storm.repeat_interleave(spell, 1)[:, :steps])\n",
        "    noise = torch.randn((<scope>, steps, 1), generator=generator, dtype=kind)\n"
        "    moves = moves + <spread> * moves[..., 3:].abs().mean(1, keepdim=True) * noise\n",
        "    clock = torch.exp(<warp> * torch.randn((steps,), generator=generator)).cumsum(0)\n"
        "    index = (clock / clock[-1] * steps).long().clamp(0, steps - 1)\n"
        "    moves, volume = moves[:, index], volume[:, index]\n",
        "    flow = torch.randn((<scope>, 1, 1), generator=generator, dtype=kind)\n"
        "    volume = volume * torch.exp(<spread> * flow)\n",
    ),
    "scope": ("1", "rows"),
    "spread": one_of("0.05 0.1 0.2 0.3 0.4 0.5"),
    "block": one_of("10 20 30 60"),
    "chance": one_of("0.1 0.2 0.3 0.5"),
    "calm": one_of("0.6 0.8 1.0"),
    "storm": one_of("0.5 1.0 1.5"),
    "warp": one_of("0.1 0.2 0.3 0.5 0.8"),
}

DEFAULT_RULES: Rules = {
    "default": (
        "def imagine(bars, generator):\n"
        "    mirror = torch.randint(0, 2, (<each>, 1, 1), generator=generator).to(bars.dtype)"
        " * 2.0 - 1.0\n"
        "    stretch = torch.exp(<spread> * torch.randn((<each>, 1, 1), generator=generator,"
        " dtype=bars.dtype))\n"
        "    start = bars[:, :1, :1].log()\n"
        "    prices = torch.exp(start + mirror * stretch * (bars[..., :4].log() - start))\n"
        "    top, bottom = (prices.amax(-1), prices.amin(-1))\n"
        "    return torch.stack([prices[..., 0], top, bottom, prices[..., 3], bars[..., 4]], -1)\n",
    ),
    "each": ("1", "bars.shape[0]"),
}


def check_imagination(load: Load, recorded: Recorded, trial: ModuleProbe) -> Floats:
    """Paths of every kind become bars that a market could print, new ones without drift."""
    import torch

    from se_rl.modules.module_probe import scaled, timed

    imagine = load()

    def make(bars: Tensor, seed: int = 0, what: str = "recorded bars") -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        made = trial.run(imagine, bars, generator, what=what, shape=bars.shape)
        return _checked_bars(made, what)

    def make_all() -> list[list[Tensor]]:
        made: list[list[Tensor]] = []
        for seed in range(SEEDS):
            made.append([make(day, seed) for day in days])
        return made

    days = list(torch.tensor(recorded["bars"], dtype=torch.float64))  # each [path, bar, 5]
    flat = torch.tensor([10.0, 10.0, 10.0, 10.0, 0.0], dtype=torch.float64)
    make(days[0][:1].clone(), what="1 path")
    make(days[0][:, :100].clone(), what="100 bars")
    make(flat.repeat(2, days[0].shape[1], 1), what="paths that stand still")
    made, seconds = timed(make_all)  # [seed][day]
    first = made[0][0]
    need(
        torch.equal(first, make(days[0])),
        "imagine gives other bars for the same bars and generator;"
        " draw only with generator=generator",
    )
    fixed = torch.equal(first, made[0][1]) and torch.equal(first, made[1][0])
    need(not fixed, "imagine depends neither on bars nor on generator; change the bars handed in")
    trial.in_time(seconds, SEEDS * sum(day[..., 0].numel() for day in days), "bar")
    _check_drift(list(chain.from_iterable(made)), days)
    path = _log_returns(first).flatten()
    return scaled(path[:: len(path) // BEHAVIOUR])


def _checked_bars(made: Tensor, what: str) -> Tensor:
    """Bars that a market could print; that they are finite is known."""
    if fault := bar_fault(made.numpy()):
        count = f"{fault.count:,} of {fault.where.size:,} bars"
        need(False, f"imagine made {count} (from {what}) with {_FAULTS[fault.kind]}")
    return made.double()


def _check_drift(made: list[Tensor], days: list[Tensor]) -> None:
    """The mean log return of a bar stays near that of the recorded days."""
    import torch

    new = torch.cat([_log_returns(day) for day in made])
    old = torch.cat([_log_returns(day) for day in days])
    # drift = (mean of imagined returns - mean of real returns) / deviation of real returns
    drift = float((new.mean() - old.mean()) / old.std())
    most = LIMITS.imagined_drift
    need(
        abs(drift) <= most,
        f"imagined prices drift: the mean log return of a bar moves by {drift:+.2f} standard"
        f" deviations, {most:g} is allowed;"
        " subtract the mean of the moves and add that of the bars",
    )


def _log_returns(bars: Tensor) -> Tensor:
    """[path, bar, 5] -> [path, bar]; the first bar's from its open."""
    return bars[..., 3].log().diff(dim=1, prepend=bars[:, :1, 0].log())


IMAGINATION = ModuleKind(
    contract=CONTRACT,
    part="imagine",
    default_source=source_of_default("imagine"),
    rules=RULES,
    default_rules=DEFAULT_RULES,
    check=check_imagination,
    draws="from the generator",
    may_be_double=True,
)
