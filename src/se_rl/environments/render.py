"""An order as one line of text: what `render` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from se_rl.data.market_data import DataError
from se_rl.environments.engine import ExecutionCore

RenderMode = Literal["ansi", "human"]
"""The line as text, or printed after every reset and step."""
RENDER_MODES: tuple[RenderMode, ...] = ("ansi", "human")
WIDTH = 20
"""Letters of the bar that shows what is left."""


def check_render_mode(mode: str | None) -> None:
    """Refuse a mode that there is not."""
    if mode is not None and mode not in RENDER_MODES:
        known = " or ".join(RENDER_MODES)
        raise DataError(f"render_mode is {mode!r}; use {known}, or None to draw nothing")


def order_line(core: ExecutionCore, *, which: int = 0, name: str = "") -> str:
    """One order of a batch: how far it is, what is left, what the last bar filled and gained."""
    orders = core.orders
    quantity = float(orders.quantity[which])
    left = float(core.remaining[which]) / quantity
    full = round(WIDTH * left)
    side = "sell" if orders.side[which] > 0 else "buy"
    parts = [
        f"bar {core.step_index}/{orders.horizon}",
        f"{name} {side} {quantity:g}".strip(),
        f"[{'#' * full}{'.' * (WIDTH - full)}] {100 * left:.1f} % left",
        f"price {float(core.touch()[which]):.4f}",
    ]
    if core.step_index:
        filled = float(core.shares[which]) / quantity
        parts += [f"filled {100 * filled:.2f} %", f"reward {float(core.reward[which]):+.3f} bps"]
    return "  ".join(parts)


def drawn(mode: RenderMode | None, lines: Sequence[str]) -> str | None:
    """The lines as the mode wants them: a text, or printed and nothing."""
    text = "\n".join(lines)
    if mode == "human":
        print(text, flush=True)
    return text if mode == "ansi" else None
