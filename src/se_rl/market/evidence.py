"""The sample of simulated markets behind the realism card: undisturbed, and with orders."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from se_rl.market.impact import DAY_BARS, MetaOrders, Start, meta_orders, news_ticks, pulse
from se_rl.market.participants import FIRST_MAKER, INFORMED, MAX_MAKERS
from se_rl.market.price_levels import CASH, LOG_QUANTITY, LOGGED, TAKER_SIDE
from se_rl.market.price_levels import SHARES as HELD
from se_rl.market.profile import MarketProfile
from se_rl.market.simulation import Markets

Float = npt.NDArray[np.float64]

QUIET_BARS = 4 * DAY_BARS
LOOK_BARS = 26
GROUPS = 16
"""Groups of markets of which the jackknife leaves out one at a time."""
SIGN_EDGES = np.geomspace(10, 1000, 9).astype(np.int64)
SIGN_LAGS = np.sqrt(SIGN_EDGES[:-1] * SIGN_EDGES[1:])
BEST_LEVELS = 5


class Evidence(NamedTuple):
    """What the facts are computed from; axis 0 of every array is the market.

    An order that failed has NaN as its response.
    """

    mid: Float  # [n, bars] ticks
    spread: Float  # [n, bars] ticks
    volume: Float  # [n, bars] lots
    depth: Float  # [n, looks, levels] lots at the best prices
    wealth: Float  # [n, (informed, makers)] ticks x lots
    sign_acf: Float  # [m, lags] autocorrelation of trade signs
    trade_lots: Float  # [m] mean size of a trade
    response: Float  # [k, sizes, bars] ticks
    pulse: Float  # [k, bars] ticks

    def without(self, group: int) -> Evidence:
        """The same without every GROUPS-th market, counted from `group`."""
        return Evidence(*(part[np.arange(len(part)) % GROUPS != group] for part in self))

    @property
    def daily_volume(self) -> float:
        """Mean lots traded in a day."""
        return float(self.volume.mean()) * DAY_BARS

    @property
    def daily_sd_ticks(self) -> float:
        """Standard deviation of a day's move, from 1-minute moves."""
        return float(np.diff(self.mid).std() * np.sqrt(DAY_BARS))


@dataclass(frozen=True, eq=False)
class Gathered:
    """The evidence, the settled markets and meta-orders behind it, and counts of what went wrong."""

    evidence: Evidence
    start: Start
    orders: MetaOrders
    messages: int
    crossed: int  # bars that ended with the bid at or above the ask
    broken: int  # quiet markets that had an empty side


@dataclass(frozen=True, eq=False)
class _Quiet:
    """Markets that nobody disturbs: fields of `Evidence`, and counts."""

    arrays: dict[str, Float]
    messages: int
    crossed: int
    broken: int


def gather(profile: MarketProfile, *, seed: int, effort: float = 1.0) -> Gathered:
    """Run the markets behind the facts."""
    quiet = _quiet_run(max(48, round(600 * effort)), profile, seed=seed)
    daily_volume = float(quiet.arrays["volume"].mean()) * DAY_BARS
    log = round(daily_volume / DAY_BARS * QUIET_BARS * 1.5)
    signs = _sign_run(max(24, round(96 * effort)), profile, seed=seed, log=log)
    start = Start(max(96, round(4000 * effort)), profile, seed=seed)
    tried = meta_orders(start, daily_volume=daily_volume)
    single = pulse(start, daily_volume=daily_volume)
    evidence = Evidence(
        **quiet.arrays,
        **signs,
        response=np.where(tried.kept[:, :, None], tried.response, np.nan),
        pulse=np.where(single.kept, single.response[:, 0], np.nan),
    )
    messages = quiet.messages + tried.messages + single.messages
    return Gathered(evidence, start, tried, messages, quiet.crossed, quiet.broken)


def _quiet_run(n: int, profile: MarketProfile, *, seed: int) -> _Quiet:
    seeds = np.random.default_rng([seed, 1]).integers(2**40, size=n)
    markets = Markets(n, profile, seeds=seeds, warm_up_bars=100)
    kept: dict[str, list[Float]] = {"mid": [], "spread": [], "volume": [], "depth": []}
    messages, crossed = 0, 0
    wealth = np.zeros((n, 2))
    for _ in range(QUIET_BARS // LOOK_BARS):  # in pieces: the full record would fill the memory
        earned, news = _worth(markets), news_ticks(markets)
        held = markets.books.book.owners[..., HELD].copy()
        bars, _answers = markets.run(LOOK_BARS)
        # holding through news earns 0 on average: taken out, so that skill shows
        earned = _worth(markets) - earned - held * (news_ticks(markets) - news)[:, None]
        makers = earned[:, FIRST_MAKER : FIRST_MAKER + MAX_MAKERS].sum(axis=1)
        wealth += np.stack([earned[:, INFORMED], makers], axis=1)
        bid, ask = bars["bid"], bars["ask"]
        kept["mid"].append(bars["close"].T / 2.0)
        kept["spread"].append((ask - bid).T.astype(float))
        kept["volume"].append(bars["volume"].T.astype(float))
        kept["depth"].append(markets.books.depth(BEST_LEVELS)[..., 1].mean(axis=1)[:, None])
        messages += int(bars["messages"].sum())
        crossed += int(((ask <= bid) & (bid > 0) & (ask > 0)).sum())
    arrays = {name: np.concatenate(parts, axis=1) for name, parts in kept.items()}
    return _Quiet(arrays | {"wealth": wealth}, messages, crossed, int(markets.broken.sum()))


def _worth(markets: Markets) -> Float:
    """Every account marked at the mid, in ticks x lots [n, owners]."""
    owners = markets.books.book.owners
    return owners[..., CASH] + owners[..., HELD] * markets.mid_ticks[:, None]


def _sign_run(n: int, profile: MarketProfile, *, seed: int, log: int) -> dict[str, Float]:
    """Autocorrelation of the signs of trades, from the trade log."""
    seeds = np.random.default_rng([seed, 2]).integers(2**40, size=n)
    markets = Markets(n, profile, seeds=seeds, log=log)
    markets.books.clear_log()
    markets.run(QUIET_BARS, record=False)
    acfs, sizes = [], []
    for b in range(n):
        trades = markets.books.trades(b)[: min(log, markets.books.total(LOGGED)[b])]
        acfs.append(sign_autocorrelation(1.0 - 2.0 * trades[:, TAKER_SIDE]))
        sizes.append(trades[:, LOG_QUANTITY].mean())
    return {"sign_acf": np.array(acfs), "trade_lots": np.array(sizes)}


def sign_autocorrelation(signs: Float) -> Float:
    """Autocorrelation of +-1 averaged between SIGN_EDGES, about their true mean 0: under long
    memory the mean of one market's signs is far from 0, and taking it out would hide the memory."""
    size = 2 ** int(np.ceil(np.log2(len(signs) + SIGN_EDGES[-1])))
    spectrum = abs(np.fft.rfft(signs, size)) ** 2
    acf = np.fft.irfft(spectrum)[: SIGN_EDGES[-1]] / (len(signs) - np.arange(SIGN_EDGES[-1]))
    return np.array([acf[low:high].mean() for low, high in pairwise(SIGN_EDGES)])
