"""What an agent sees of simulated markets on a device: `environments.market_view` as tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from se_rl.data.features import CLIP, PUBLIC_RECORDS
from se_rl.environments.market_pool import LOOKBACK_BARS
from se_rl.environments.market_view import QUIET_VOLUME
from se_rl.environments.metrics import BPS
from se_rl.environments.scripted_markets import ScriptedMarkets
from se_rl.market import participants as at
from se_rl.market.price_levels import BUY, SELL
from se_rl.rl.on_device.device_markets import DeviceBooks
from se_rl.rl.on_device.device_world import Uploads


class DeviceView:
    """Some markets from the start of their windows on: a `data.book_view.BookView` of tensors."""

    def __init__(
        self, markets: ScriptedMarkets, books: DeviceBooks, uploads: Uploads, *, horizon: int
    ) -> None:
        script, usual, put = markets.script, markets.usual, uploads.put
        self._books = books
        self._bar = 0
        self.reference, self.tick = put(script.reference), put(script.tick)
        self.anchor = put(markets.anchor)
        self._log_open = put(script.log_open)
        self._usual_spread_bps = put(usual.spread_ticks * script.tick * BPS)
        self._log_usual_lots = torch.log(put(usual.best_lots) + 1.0)
        self._log_usual_volatility = torch.log(put(script.usual_volatility))
        log_mid = torch.log(self.price(self.mid_ticks))
        past = put(script.log_path)  # [bar, market]
        self._path = torch.cat([past, past.new_empty((horizon, past.shape[1]))])
        self._path[LOOKBACK_BARS] = log_mid
        self._volume = torch.zeros_like(self._path)
        self._volume[1 : LOOKBACK_BARS + 1] = put(script.volume).cumsum(0)
        self._columns = torch.arange(past.shape[1], device=past.device)
        self._return_bars = put(script.return_bars)  # [return, market]
        self._high = torch.maximum(put(script.log_high), log_mid)
        self._low = torch.minimum(put(script.log_low), log_mid)
        self._squared, self._weight = put(script.squared_sum), put(script.squared_weight)
        self._universe = put(script.universe_return)
        self._has_universe = ~torch.isnan(self._universe[0])
        self._time_of_day = put(script.time_of_day)
        self._bars_known = put(script.bars_known)
        self._measure()

    @property
    def mid_ticks(self) -> Tensor:
        """The midpoint of each market in ticks."""
        return self._books.state[:, at.LAST_MID].double() / 2.0

    def price(self, ticks: Tensor) -> Tensor:
        """Ticks [..., market] in currency."""
        return self.reference * (1.0 + (ticks - self.anchor) * self.tick)

    def add(self, *, mid: Tensor, high: Tensor, low: Tensor, relative_volume: Tensor) -> None:
        """One more bar has closed; prices are in currency."""
        self._bar += 1
        now, log_mid = self._now, torch.log(mid)
        self._path[now] = log_mid
        self._volume[now] = self._volume[now - 1] + relative_volume
        self._squared = self._squared + torch.square(log_mid - self._path[now - 1])
        self._high = torch.maximum(self._high, torch.log(high))
        self._low = torch.minimum(self._low, torch.log(low))
        self._measure()

    def fields(self) -> Tensor:
        """The public fields [market, field] of the books as they stand now."""
        self._look()
        seen = [field.in_book(self) for field in PUBLIC_RECORDS]  # type: ignore[arg-type, misc]
        return torch.stack(seen, dim=1).clamp(-CLIP, CLIP)  # type: ignore[arg-type]

    @property
    def log_spread_ratio(self) -> Tensor:
        """Log of the spread over the usual one."""
        return torch.log((self.spread_bps + 0.01) / (self._usual_spread_bps + 0.01))

    @property
    def return_since_open(self) -> Tensor:
        """Log return since the open, in its standard deviations."""
        bars_known = (self._bars_known + self._bar).clamp(min=1.0)
        moved = self._path[self._now] - self._log_open
        return moved / (self.volatility * torch.sqrt(bars_known))

    @property
    def range_position(self) -> Tensor:
        """Where the mid lies in the day's log range, from -1 to 1; 0 where there is no range."""
        width = self._high - self._low
        place = 2.0 * (self._path[self._now] - self._low) / width.clamp(min=1e-12) - 1.0
        return torch.where(width > 0, place, 0.0)

    @property
    def log_volatility_ratio(self) -> Tensor:
        """Log of the volatility over the symbol's usual one."""
        return torch.log(self.volatility) - self._log_usual_volatility

    @property
    def time_of_day(self) -> Tensor:
        """Share of the session gone."""
        return self._time_of_day[self._bar]

    def log_volume_ratio(self, entry: int) -> Tensor:
        """Log of the volume over the usual one, in the bars of one entry of RETURN_MINUTES."""
        bars = self._return_bars[entry]
        traded = self._volume[self._now] - self._volume[self._now - bars, self._columns]
        return torch.log(traded.clamp(min=0.0) / bars + QUIET_VOLUME)

    @property
    def _now(self) -> int:
        return LOOKBACK_BARS + self._bar

    def _measure(self) -> None:
        """Volatility per bar, as a share of the price."""
        variance = self._squared / (self._weight + self._bar)
        self.volatility = torch.sqrt(variance.clamp(min=1e-12))

    def _look(self) -> None:
        """Take in the book as it stands now; where a side is empty, the mid is its best price."""
        depth = self._books.depth()
        lots = depth[..., 1].double()  # [market, side, level]
        best = torch.where(lots[..., 0] > 0, depth[:, :, 0, 0], self.mid_ticks[:, None])
        bid, ask = self.price(best[:, BUY]), self.price(best[:, SELL])
        self.bid, self.ask = bid, ask
        self.half_spread = (ask - bid) / (ask + bid)
        self.spread_bps = 2.0 * BPS * (ask - bid).clamp(min=0.0) / (ask + bid)
        self.log_sizes = torch.log(lots.flatten(1).t() + 1.0) - self._log_usual_lots
        bids, asks = lots.sum(2).unbind(1)
        self.imbalance = (bids - asks) / (bids + asks).clamp(min=1.0)
        moved = self._path[self._now] - self._path[self._now - self._return_bars, self._columns]
        deviation = self.volatility * torch.sqrt(self._return_bars.double())
        self.returns = (moved / deviation).clamp(-CLIP, CLIP)
        specific = self.returns - self._universe[self._bar]
        self.specific_returns = torch.where(self._has_universe, specific, 0.0)
