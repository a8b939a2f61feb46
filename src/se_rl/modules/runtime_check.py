"""The runtime stage: tries a module on recorded steps and says in one line what is wrong with it.

Trusted code that runs inside a locked process, together with the module. A hostile module may forge its own verdict there
and gains nothing by it: it is trained behind the same lock, and scored by the parent from its actions alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from se_rl.data.features import CLIP
from se_rl.market.simulation import Markets
from se_rl.modules.contracts import (
    CODE_TYPES,
    CONTRACTS,
    LIMITS,
    NETWORK_CONSTANTS,
    OBSERVATION_FIELDS,
    PROFILE_RANGES,
    REWARD_FIELDS,
)
from se_rl.modules.loading import IMPORTS, ModuleError, load_module, one_line
from se_rl.modules.module_probe import SPLIT, ModuleProbe, is_out_of_memory, need, normal, timed
from se_rl.sandbox.worker import shared_data

Floats = npt.NDArray[np.float32]
Recorded = Mapping[str, npt.NDArray[Any]]
"""`fields_WORLD` [schedule, field, step, order] and `merit_WORLD` [schedule] (higher is better, NaN unknown; the second half
of the orders are the first half's other sides), `observations` [order, step, field], `bars` [date, path, bar, 5]."""

ROWS = 4096
"""Rows of the large batch."""
BEHAVIOUR = 64
"""Numbers in a behaviour vector."""
RANKS_BADLY, RANKS_BACKWARDS = 0.2, -0.5
"""Rank correlations: below the first a reward is warned, below the second refused, for it would pay for bad trading."""
MARKETS, BARS, BREAKS_OFTEN = 32, 60, 0.1
AGENTS, SEEDS = 3, 8
OBS, HEARD = len(OBSERVATION_FIELDS), LIMITS.message_size

Load = Callable[[], Any]


@dataclass(frozen=True, eq=False)
class RuntimeVerdict:
    """How a module did: what is wrong in one line ("": nothing), a digest of all its outputs, its outputs on a few rows
    (scaled, for comparing designs), and what it should do better."""

    error: str
    fingerprint: str = ""
    behaviour: Floats = field(default_factory=lambda: np.zeros(BEHAVIOUR, np.float32))
    warnings: tuple[str, ...] = ()


def probe(source: str, code_type: str, recorded: Recorded, *, salt: int = 0) -> RuntimeVerdict:
    """Try a module. Call it in two processes with different salts: equal fingerprints mean that it is deterministic.

    The salt moves what the module makes in memory: two forks of one process would agree on addresses otherwise. Running
    out of memory is left to the caller, the sandbox has a word for it.
    """
    trial = ModuleProbe(code_type, salt)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            load = partial(trial.attempt, load_module, source, code_type, what="its first lines")
            behaviour = _PROBES[code_type](load, recorded, trial)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        line = str(error) if isinstance(error, ModuleError) else one_line(error, code_type)
        return RuntimeVerdict(" ".join(line.split())[:480])
    return RuntimeVerdict("", trial.digest.hexdigest(), behaviour, tuple(trial.warnings))


def probe_in_sandbox(payload: dict[str, Any]) -> dict[str, Any]:
    """`probe` as the sandbox calls it: the source comes as bytes, the recorded steps are shared as "recorded"."""
    source, recorded = payload["source"].decode(), shared_data()["recorded"]
    verdict = probe(source, payload["code_type"], recorded, salt=payload["salt"])
    return asdict(verdict) | {"warnings": list(verdict.warnings)}


def _reward(load: Load, recorded: Recorded, trial: ModuleProbe) -> Floats:
    reward = load()

    def call(rows: Tensor) -> Any:
        return reward(SimpleNamespace(**dict(zip(REWARD_FIELDS, rows.unbind(1), strict=True))))

    worlds = {
        name[7:]: torch.tensor(array)
        for name, array in recorded.items()
        if name.startswith("fields_")
    }
    columns = {name: fields.transpose(0, 1).flatten(1) for name, fields in worlds.items()}
    joined = torch.cat(list(columns.values()), 1)
    low, high = (
        torch.tensor([getattr(f, end) for f in REWARD_FIELDS.values()]) for end in ("low", "high")
    )
    corners = torch.where(normal((64, len(low)), 1) > 0, low, high)
    edges = {
        "fields of 0 (or the end of the range next to it)": torch.zeros(1, len(low)).clamp(
            low, high
        ),
        "fields at the ends of their ranges": torch.cat([low[None], high[None], corners]),
    }
    values = trial.batches(call, joined[:, _mixed(joined.shape[1])].T, edges=edges, tail=())
    varies = float(values.max() - values.min()) > 1e-6 * float(values.abs().max())
    need(
        varies,
        f"reward is {float(values[0]):.3g} on all recorded rows; let it depend on the fields of step",
    )
    correlations = []
    for name, fields in worlds.items():
        shape = fields[:, 0].shape
        each = trial.run(call, columns[name].T, what=f"the {name} world", shape=(shape.numel(),))
        correlations.append(
            _ranking(each.view(shape).double().sum(1), torch.tensor(recorded[f"merit_{name}"]))
        )
    _check_ranking(float(np.mean(correlations)), trial)
    return _scaled(values)


def _ranking(totals: Tensor, merit: Tensor) -> float:
    """Kendall's rank correlation of episode sums [schedule, order] with merit, over schedules, mean of all windows."""
    totals = totals.view(len(totals), 2, -1).mean(
        1
    )  # both sides of a window together: its drift is nobody's merit
    better, worse = torch.where(merit[:, None] > merit[None])
    gap = totals[better] - totals[worse]
    return float(torch.where(gap.abs() > 1e-6 * totals.abs().max(), gap.sign(), 0.0).mean())


def _check_ranking(correlation: float, trial: ModuleProbe) -> None:
    seen = f"rank correlation {correlation:.2f} with known good and bad trading"
    need(
        correlation >= RANKS_BACKWARDS,
        f"reward ranks trading backwards: {seen} (refused below {RANKS_BACKWARDS}); turn its sign, a higher fill_price is"
        " better whatever the side",
    )
    if correlation < RANKS_BADLY:
        mend = "pay for traded_share at a good fill_price"
        trial.warnings.append(f"ranks_badly: {seen}, {RANKS_BADLY} or more is wanted; {mend}")


def _network(load: Load, recorded: Recorded, trial: ModuleProbe) -> Floats:
    factory = load()
    history = int(getattr(factory, "history", NETWORK_CONSTANTS["history"].default))
    padded = functional.pad(
        torch.tensor(recorded["observations"]), (0, 0, history - 1, 0)
    )  # zeros before the first
    windows = padded.unfold(1, history, 1).transpose(2, 3).flatten(0, 1)
    rows = windows[_mixed(len(windows))].contiguous()
    extreme = CLIP * normal((64, history, OBS), 1).sign()
    extreme[..., -2:] = (extreme[..., -2:] > 0).float()  # time and inventory left are shares
    edges = {
        "observations of 0": torch.zeros(1, history, OBS),
        f"observations of {CLIP:g} and -{CLIP:g}": extreme,
    }
    live, width = _with_width(trial, factory, OBS, history)
    values = trial.batches(live, rows, edges=edges, tail=(width,))
    varies = (values.std(0) > 1e-6 * values.abs().max()).any()
    need(varies, "the features are the same for all recorded observations; let them depend on obs")
    trial.learns(live, rows[:SPLIT])
    trial.survives_saving(live, lambda: trial.build(factory, OBS, history), rows[:64])
    wide, wide_width = _with_width(trial, factory, OBS + HEARD, history)
    heard = functional.pad(rows[:8], (0, HEARD))
    trial.run(
        wide, heard, what=f"obs_dim {OBS + HEARD}, as where agents talk", shape=(8, wide_width)
    )
    constants = [
        _share(getattr(factory, n, c.default), c.low, c.high) for n, c in NETWORK_CONSTANTS.items()
    ]
    shown = _scaled(values @ normal((width,), 2))
    return np.concatenate([np.array(constants, np.float32), shown])[:BEHAVIOUR]


def _with_width(
    trial: ModuleProbe, factory: Callable[..., Any], obs_dim: int, history: int
) -> tuple[nn.Module, int]:
    live, most = trial.build(factory, obs_dim, history), LIMITS.feature_dim
    width: Any = getattr(live, "feature_dim", None)
    fine = type(width) is int and 1 <= width <= most
    need(
        fine,
        f"self.feature_dim is {width!r}; set it in __init__ to a whole number from 1 to {most}",
    )
    return live, width


def _communication(load: Load, recorded: Recorded, trial: ModuleProbe) -> Floats:
    factory = load()
    seen = torch.tensor(recorded["observations"]).flatten(0, 1)
    said = torch.tanh(seen @ normal((OBS, HEARD), 1) / OBS**0.5)
    said = said.repeat(-(-AGENTS * ROWS // len(said)), 1)
    for agents in (1, 2):
        alone = said[: 8 * agents].view(8, agents, HEARD)
        trial.run(
            trial.build(factory, agents, HEARD), alone, what=f"{agents} agents", shape=alone.shape
        )
    messages = said[: AGENTS * ROWS].view(ROWS, AGENTS, HEARD)
    ends = normal((64, AGENTS, HEARD), 2).sign()
    edges = {"messages of 0": torch.zeros(1, AGENTS, HEARD), "messages of -1 and 1": ends}
    live = trial.build(factory, AGENTS, HEARD)
    values = trial.batches(live, messages, edges=edges, tail=(AGENTS, HEARD))
    trial.learns(live, messages[:SPLIT])
    trial.survives_saving(live, lambda: trial.build(factory, AGENTS, HEARD), messages[:64])
    _check_hearing(live, messages[:64], trial)
    return _scaled(values.flatten())


@torch.no_grad()
def _check_hearing(live: nn.Module, messages: Tensor, trial: ModuleProbe) -> None:
    """Somebody's inbox depends on others, or all are silent. The weights have been moved: links from 0 show as well."""
    inbox = live(messages)
    for agent in range(AGENTS):
        others = -messages.flip(0)
        others[:, agent] = messages[:, agent]
        if not torch.equal(live(others)[:, agent], inbox[:, agent]):
            return
    mend = "use the messages of the others, or return torch.zeros_like(messages) for silence"
    need(not inbox.any(), f"no agent's inbox depends on what the others say; {mend}")
    trial.warnings.append(
        "silent: nobody hears anything; let the inbox depend on the messages of the others"
    )


def _profiling(load: Load, recorded: Recorded, trial: ModuleProbe) -> Floats:
    profile = load()
    need(
        load() == profile, "profile() returns other numbers when called again; write fixed numbers"
    )
    markets = Markets(MARKETS, profile, parallel=False)
    bars = markets.run(BARS)[0]
    whole, broken = ~markets.broken, float(markets.broken.mean())
    mend = "raise maker_levels, maker_lots, maker_wake_rate or noise_limit_rate, or lower noise_market_rate"
    need(whole.any(), f"a side of the book ran empty in all {MARKETS} markets tried; {mend}")
    if broken > BREAKS_OFTEN:
        trial.warnings.append(
            f"breaks_often: a side of the book ran empty in {broken:.0%} of markets; {mend}"
        )
    close, volume = (np.ascontiguousarray(bars[name][:, whole]) for name in ("close", "volume"))
    lives = volume.any() and np.diff(close, axis=0).any()
    need(
        lives, "the market never trades or never moves; raise noise_market_rate or news_volatility"
    )
    trial.digest.update(close.tobytes() + volume.tobytes())
    shares = [
        _share(getattr(profile, name), low, high) for name, (low, high) in PROFILE_RANGES.items()
    ]
    return np.pad(np.array(shares, np.float32), (0, BEHAVIOUR - len(shares)))


def _imagination(load: Load, recorded: Recorded, trial: ModuleProbe) -> Floats:
    imagine = load()

    def make(bars: Tensor, seed: int = 0, what: str = "recorded bars") -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return _checked_bars(trial.run(imagine, bars, generator, what=what, shape=bars.shape), what)

    days = list(torch.tensor(recorded["bars"], dtype=torch.float64))
    flat = torch.tensor([10.0, 10.0, 10.0, 10.0, 0.0], dtype=torch.float64).repeat(
        2, days[0].shape[1], 1
    )
    for what, bars in {
        "1 path": days[0][:1],
        "100 bars": days[0][:, :100],
        "paths that stand still": flat,
    }.items():
        make(bars.clone(), what=what)
    made, seconds = timed(lambda: [[make(day, seed) for day in days] for seed in range(SEEDS)])
    first = made[0][0]
    again = "imagine gives other bars for the same bars and generator; draw only with generator=generator"
    need(torch.equal(first, make(days[0])), again)
    fixed = torch.equal(first, made[0][1]) and torch.equal(first, made[1][0])
    need(not fixed, "imagine depends neither on bars nor on generator; change the bars handed in")
    trial.in_time(seconds, SEEDS * sum(day[..., 0].numel() for day in days), "bar")
    new, old = (
        torch.cat([_log_returns(day) for day in some])
        for some in ([day for run in made for day in run], days)
    )
    drift = float((new.mean() - old.mean()) / old.std())
    most = LIMITS.imagined_drift
    need(
        abs(drift) <= most,
        f"imagined prices drift: the mean log return of a bar moves by {drift:+.2f} standard deviations, {most:g} is"
        " allowed; subtract the mean of the moves and add that of the bars",
    )
    path = _log_returns(first).flatten()
    return _scaled(path[:: len(path) // BEHAVIOUR])


def _checked_bars(made: Tensor, what: str) -> Tensor:
    """Bars that a market could print."""
    opens, high, low, close, volume = made.unbind(-1)
    outside = (torch.minimum(opens, close) < low) | (torch.maximum(opens, close) > high)
    for mend, wrong in {
        "prices that are not positive; move prices by factors (exp of log moves)": (
            made[..., :4] <= 0
        ).any(-1),
        "negative volume; use clamp(min=0)": volume < 0,
        "no low <= open, close <= high; take high as amax and low as amin of the four prices": outside,
    }.items():
        need(
            not wrong.any(),
            f"imagine made {int(wrong.sum()):,} of {wrong.numel():,} bars (from {what}) with {mend}",
        )
    return made.double()


def _log_returns(bars: Tensor) -> Tensor:
    return bars[..., 3].log().diff(dim=1, prepend=bars[:, :1, 0].log())


def _mixed(count: int) -> Tensor:
    """Places of at most ROWS rows out of `count`, in no order."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:ROWS]


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low)


def _scaled(values: Tensor) -> Floats:
    """BEHAVIOUR numbers of mean 0 and deviation 1: the framework takes the scale out as well."""
    values = values[:BEHAVIOUR].double()
    scaled = (values - values.mean()) / values.std().clamp(min=1e-12)
    return scaled.float().numpy()


_PROBES: dict[str, Callable[[Load, Recorded, ModuleProbe], Floats]] = {
    "reward": _reward,
    "network": _network,
    "communication": _communication,
    "profiling": _profiling,
    "imagination": _imagination,
}


def warm_up() -> None:
    """In the fork-server: import all that a module may, load the market's kernels, use each kind of layer both ways."""
    for name in IMPORTS:
        import_module(name)
    for code_type in CODE_TYPES:
        for source in CONTRACTS[code_type].examples:
            probe(source, code_type, _invented())
    from torch.nn.utils.parametrizations import weight_norm

    x = torch.ones(2, 4, 8, requires_grad=True)
    recurrent = (nn.LSTM(8, 8, batch_first=True), nn.GRU(8, 8), nn.RNN(8, 8))
    attention = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    for layer in (
        *recurrent,
        attention,
        nn.Conv1d(4, 4, 3),
        weight_norm(nn.Linear(8, 8)),
        nn.GELU(),
        nn.Softplus(),
    ):
        out = layer(x)
        (out[0] if isinstance(out, tuple) else out).sum().backward()


def _invented() -> dict[str, npt.NDArray[Any]]:
    """Stand-ins for recorded steps, enough to call everything once."""
    rng = np.random.default_rng(0)
    low, high = (
        np.array([getattr(f, end) for f in REWARD_FIELDS.values()])[:, None, None]
        for end in ("low", "high")
    )
    fields = (low + (high - low) * rng.random((3, len(low), 20, 70))).astype(np.float32)
    closes = 50.0 * np.exp(1e-3 * rng.standard_normal((2, 3, 120, 1)))
    bars = np.concatenate([closes, closes * 1.001, closes * 0.999, closes, closes], -1)
    seen = rng.random((256, 20, OBS), np.float32)
    return {
        "fields_static": fields,
        "merit_static": np.arange(3.0),
        "observations": seen,
        "bars": bars,
    }
