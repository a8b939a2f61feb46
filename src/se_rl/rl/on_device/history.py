"""History on a device: the static world's arithmetic for whole episodes at once.

Orders move no price there, so that all they will see of the market is gathered before the first
step; a step books what is left. Prices are those of `static_fields.bar_table`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from se_rl.data.features import OBSERVATION_PLACE, PUBLIC_PLACES, TURNED_FIELD, TURNED_SIGN
from se_rl.environments.static_fields import COLUMN
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import Episodes
from se_rl.rl.on_device.device_world import Uploads, clipped_fields, order_observation

_INVENTORY_LEFT = OBSERVATION_PLACE["inventory_left"]


class DeviceHistory:
    """A static world whose orders take the bar price, without a cap."""

    def __init__(self, world: StaticWorld, uploads: Uploads) -> None:
        costs = world.costs
        if costs.fills != "price_taker" or costs.max_participation is not None or world.further:
            raise ValueError(
                f"on a device history has price takers without a cap and no further inputs, not "
                f"{costs.words()}, inputs {list(world.further)}; train on the CPU"
            )
        self.world = world
        self._uploads = uploads

    def start(self, episodes: Episodes) -> Tensor:
        """Gather all observations but for what is left of the orders."""
        orders = episodes.of_horizon(self.world.horizon)
        put, keep = self._uploads.put, self._uploads.keep
        steps = torch.arange(self.world.horizon, device=self._uploads.device)[:, None]
        self._row, self._side = put(orders.row), put(orders.side).double()
        self._start = put(orders.start)
        self._bar = self._start + steps  # [step, order]
        public = keep(self.world.table)[self._row, self._bar]  # [step, order, field]
        turned = public[..., keep(TURNED_FIELD)] * keep(TURNED_SIGN)
        own = order_observation(orders, self._uploads)
        self._seen = own.repeat(self.world.horizon, 1, 1)
        self._seen[..., PUBLIC_PLACES] = torch.where(self._side[:, None] > 0, public, turned)
        time_left = 1.0 - steps.double() / self.world.horizon
        self._seen[..., OBSERVATION_PLACE["time_left"]] = time_left.float()
        self._left = torch.ones(
            (self.world.horizon + 1, len(orders)), dtype=torch.float64, device=public.device
        )
        self._step = 0
        return self._observed()

    def step(self, ratio: Tensor, offset: Tensor) -> Tensor:
        """Fill at the bar price; the last step trades all that is left."""
        wanted = torch.nan_to_num(ratio.double()).clamp(0.0, 1.0)
        self._left[self._step + 1] = self._left[self._step] * (1.0 - wanted)
        self._step += 1
        return self._observed()

    def _observed(self) -> Tensor:
        """The observation before the next step; after the last one nobody looks."""
        step = min(self._step, self.world.horizon - 1)
        self._seen[step, :, _INVENTORY_LEFT] = self._left[step].float()
        return self._seen[step]

    def finish(self) -> tuple[Tensor, Tensor]:
        """All fields at once; nothing breaks on history."""
        horizon, side, prices = self.world.horizon, self._side, self.world.prices
        bars = self._uploads.keep(prices.bars)
        now = bars[self._row, self._bar].double().unbind(-1)  # a tensor [step, order] for a column
        closing = bars[self._row, self._bar + 1, COLUMN.mid].double()
        unit = 1.0 / bars[self._row, self._start, COLUMN.mid].double()
        left = self._left.clone()
        forced = left[-1].clone()
        left[-1] = 0.0
        traded = left[:-1] - left[1:]
        price, net = now[COLUMN.price], 1.0 - side * prices.taker_cost
        taker = 1.0 + side * (price * net * unit - 1.0)
        benchmark = 1.0 + side * (price * unit - 1.0)
        before = 1.0 + side * (now[COLUMN.mid] * unit - 1.0)
        after = 1.0 + side * (closing * unit - 1.0)
        gone = torch.arange(1, horizon + 1, device=left.device).double()[:, None]
        time_left = (1.0 - gone / horizon).expand_as(traded)
        last = torch.zeros_like(traded)
        last[-1] = torch.where(forced > 1e-9, forced, 0.0)
        fields = {
            "fill_price": torch.where(traded > 0.0, taker, benchmark),
            "benchmark_price": benchmark,
            "traded_share": traded,
            "half_spread": now[COLUMN.half_spread],
            "volatility": now[COLUMN.volatility],
            "imbalance": side * now[COLUMN.imbalance],
            "inventory_left": left[1:],
            "time_left": time_left,
            "mid_before": before,
            "mid_after": after,
            "no_order_mid": after,
            "no_order_mid_before": before,
            "news": side * now[COLUMN.news],
            "twap_fill_price": taker,
            "twap_traded_share": torch.full_like(traded, 1.0 / horizon),
            "twap_inventory_left": time_left,
            "forced_share": last,
        }
        kept = torch.ones(len(side), dtype=torch.bool, device=left.device)
        return clipped_fields(fields, self._uploads), kept
