"""The dynamic world on a device: orders executed in simulated books, as tensors.

The arithmetic is that of `DynamicCore` and `DynamicWorld`, in double precision; what does not depend
on a policy (scripts, warm states, baselines) is made by these on the host when a batch starts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from se_rl.data.features import OBSERVATION_PLACE, PUBLIC_PLACES, TURNED_FIELD, TURNED_SIGN
from se_rl.environments.dynamic_core import FARTHEST_TICKS
from se_rl.environments.dynamic_world import DynamicWorld
from se_rl.environments.limit_units import LEAST_UNIT_TICKS
from se_rl.environments.worlds import Episodes
from se_rl.market import participants as at
from se_rl.market.price_levels import BUY, SELL
from se_rl.rl.on_device.device_markets import running, scripted_on
from se_rl.rl.on_device.device_view import DeviceView
from se_rl.rl.on_device.device_world import Uploads, clipped_fields, order_observation

BAR = (at.BAR_OPEN, at.BAR_HIGH, at.BAR_LOW, at.LAST_MID, at.TRADED)
"""Columns of the state that say what happened in a bar."""


class DeviceSimulation:
    """A dynamic world in which every order has a market of its own."""

    def __init__(self, world: DynamicWorld, uploads: Uploads) -> None:
        if world.agents > 1 or world.further:
            raise ValueError(
                f"on a device every order has a market of its own and no further inputs, not "
                f"{world.agents} agents and inputs {list(world.further)}; train on the CPU"
            )
        self.world = world
        self._uploads = uploads
        self._markets = scripted_on(world.core.books, uploads.device)

    def start(self, episodes: Episodes) -> Tensor:
        """Copy warm states, write scripts, look up what the orders are compared with."""
        world, put = self.world, self._uploads.put
        orders = episodes.of_horizon(world.horizon)
        known = world.baseline_of(episodes)
        markets = self._markets
        markets.start(orders, episodes.book_seeds)
        self._books = running(markets.markets)
        self._view = DeviceView(markets, self._books, self._uploads, horizon=world.horizon)
        self._side = put(orders.side).double()
        self._own_side = torch.where(self._side > 0, SELL, BUY)
        self._drift, self._events = put(markets.drift), put(markets.events)
        self._volume_lots = put(markets.usual.volume_lots)
        self._collar = put(2.0 * markets.usual.collar * markets.tick_currency())
        wanted = put(orders.size) * self._volume_lots * world.horizon
        self._lots = torch.round(wanted).clamp(min=1.0)
        self._remaining = self._lots.clone()
        self._carry = torch.zeros_like(self._lots)
        self._left = torch.ones_like(self._lots)
        self._mid, self._news = put(known.mid.T).double(), put(known.news.T).double()
        self._twap_fill, self._twap_left = put(known.fill.T).double(), put(known.left.T).double()
        self._void = put(known.void)
        self._arrival = self._after = self._view.price(self._view.mid_ticks)
        self._fields: list[Tensor] = []
        self._own = order_observation(orders, self._uploads)
        self._step = 0
        return self._observed()

    def step(self, ratio: Tensor, offset: Tensor) -> Tensor:
        """One bar for every order; after the last one what is left is taken at market."""
        view, step = self._view, self._step
        wishes = self._wishes(self._whole_lots(ratio), offset)
        before = self._after
        known = {
            "half_spread": view.half_spread,
            "volatility": view.volatility,
            "imbalance": self._side * view.imbalance,
        }
        answers = self._books.trade(wishes, self._drift[step], self._events[step]).double()
        known["passive_share"] = answers[:, at.PASSIVE] / self._lots
        self._step += 1
        self._remaining = self._remaining - answers[:, at.ANSWERED]
        bar = [self._books.state[:, column].double() for column in BAR]  # completion moves it
        forced = torch.zeros_like(answers)
        if self._step == self.world.horizon:
            forced = self._complete()
        average = self._note(bar)
        filled = answers[:, at.ANSWERED] + forced[:, at.ANSWERED]
        cash = answers[:, at.SPENT] + forced[:, at.SPENT]
        paid = torch.where(filled > 0, view.price(cash / filled.clamp(min=1.0)), average)
        fields = known | self._traded(before, average, paid, forced[:, at.ANSWERED] / self._lots)
        self._fields.append(clipped_fields(fields, self._uploads))
        return self._observed()

    def finish(self) -> tuple[Tensor, Tensor]:
        """The fields, and the orders whose market did not break, nor one they are compared with."""
        return torch.stack(self._fields, dim=1), ~self._broken

    @property
    def _broken(self) -> Tensor:
        return (self._books.state[:, at.BROKEN] > 0) | self._void

    def _whole_lots(self, ratio: Tensor) -> Tensor:
        """Whole lots to trade; what rounding adds or leaves is carried over to the next step."""
        share = torch.nan_to_num(ratio.double()).clamp(0.0, 1.0)
        want = share * (self._remaining - self._carry) + self._carry
        lots = torch.minimum(torch.round(want).clamp(min=0.0), self._remaining)
        self._carry = want - lots
        return lots

    def _wishes(self, lots: Tensor, offset: Tensor | None) -> Tensor:
        """[market, 1, wish]: post these lots so far from the own touch, or take them."""
        view = self._view
        wishes = torch.zeros((len(lots), 1, at.WISH_FIELDS), dtype=torch.int64, device=lots.device)
        own = wishes[:, 0]
        own[:, at.KIND] = at.TAKE
        own[:, at.WISH_SIDE] = self._own_side
        own[:, at.WISH_LOTS] = lots.long()
        if offset is None or not self.world.takes_price:
            return wishes
        touch = torch.where(self._own_side == SELL, view.ask, view.bid)
        units = torch.nan_to_num(offset.double())
        if self.world.limit_unit == "volatility":
            volatility = view.volatility * self._arrival
            unit = 0.5 * volatility / (view.tick * view.reference)
            units = units * unit.clamp(min=LEAST_UNIT_TICKS)
        moved = torch.round(units)
        limit = touch + self._side * moved * (view.tick * view.reference)
        away = (limit / view.reference - 1.0) / view.tick
        ticks = view.anchor + away.clamp(-FARTHEST_TICKS, FARTHEST_TICKS)
        own[:, at.KIND] = at.POST
        own[:, at.WISH_PRICE] = torch.round(ticks).long()
        return wishes

    def _complete(self) -> Tensor:
        """Take what is left at market; a side that this empties is no broken market."""
        nothing = torch.zeros_like(self._events[0])
        broken = self._books.state[:, at.BROKEN].clone()
        taken = self._books.trade(self._wishes(self._remaining, None), nothing, nothing).double()
        self._books.state[:, at.BROKEN] = broken
        self._remaining = self._remaining - taken[:, at.ANSWERED]
        return taken

    def _note(self, bar: list[Tensor]) -> Tensor:
        """Mids and volume of the bar that has closed, from the state; its average mid."""
        view = self._view
        opened, high, low, close, traded = bar
        self._after = view.price(close / 2.0)  # mids are recorded in half ticks
        view.add(
            mid=self._after,
            high=view.price(high / 2.0),
            low=view.price(low / 2.0),
            relative_volume=traded / self._volume_lots,
        )
        return view.price((opened + high + low + close) / 8.0)

    def _traded(
        self, before: Tensor, average: Tensor, paid: Tensor, forced: Tensor
    ) -> dict[str, Tensor]:
        """The reward's fields that prices and shares make, as `DynamicWorld` has them."""
        step = self._step - 1
        side, fee, void = self._side, self.world.fee, self._broken
        free_before, free = 1.0 + side * self._mid[step], 1.0 + side * self._mid[step + 1]
        unsold = self._remaining / self._lots
        refused = unsold if self._step == self.world.horizon else torch.zeros_like(unsold)
        left = unsold - refused
        share = self._left - left
        self._left = left
        part = torch.where(share > 0.0, refused / share, 0.0)
        worst = self._after - side * self._collar
        net = (paid + part * (worst - paid)) * (1.0 - side * fee)
        mean = torch.where(void, free, self._turned(average))
        after = torch.where(void, free, self._turned(self._after))
        fill = torch.where(void, free, self._turned(net))
        twap_before = self._twap_left[step - 1] if step else torch.ones_like(share)
        twap = 1.0 + side * ((1.0 + self._twap_fill[step]) * (1.0 - side * fee) - 1.0)
        return {
            "fill_price": torch.where(share > 0.0, fill, mean),
            "benchmark_price": mean,
            "traded_share": share,
            "inventory_left": left,
            "time_left": torch.full_like(share, 1.0 - self._step / self.world.horizon),
            "own_impact": free - after,
            "mid_before": torch.where(void, free_before, self._turned(before)),
            "mid_after": after,
            "no_order_mid": free,
            "no_order_mid_before": free_before,
            "news": side * (self._news[step + 1] - self._news[step]),
            "twap_fill_price": twap,
            "twap_traded_share": twap_before - self._twap_left[step],
            "twap_inventory_left": self._twap_left[step],
            "forced_share": forced + refused,
        }

    def _turned(self, price: Tensor) -> Tensor:
        """Currency as a share of the arrival price, turned so that higher is better."""
        return 1.0 + self._side * (price / self._arrival - 1.0)

    def _observed(self) -> Tensor:
        """The observation of the books as they stand now."""
        keep = self._uploads.keep
        public = self._view.fields()
        turned = public[:, keep(TURNED_FIELD)] * keep(TURNED_SIGN)
        seen = self._own.clone()
        seen[:, PUBLIC_PLACES] = torch.where(self._side[:, None] > 0, public, turned).float()
        seen[:, OBSERVATION_PLACE["time_left"]] = 1.0 - self._step / self.world.horizon
        seen[:, OBSERVATION_PLACE["inventory_left"]] = (self._remaining / self._lots).float()
        return seen
