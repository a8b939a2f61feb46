"""Where a number stands in an array of the market, handed out place by place so that nobody counts
by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any


class Layout:
    """The columns of one array: `take` gives the next free one, `width` counts those taken."""

    def __init__(self) -> None:
        self.width = 0

    def take(self, count: int = 1) -> int:
        """The first of `count` neighbouring columns that nobody has yet."""
        first = self.width
        self.width += count
        return first


def own_functions(namespace: Mapping[str, object]) -> tuple[Callable[..., Any], ...]:
    """The functions that a module defines itself, given its `globals()`: what a kernel compiles of
    it."""
    own: list[Callable[..., Any]] = []
    for value in namespace.values():
        if isinstance(value, FunctionType) and value.__module__ == namespace["__name__"]:
            own.append(value)
    return tuple(own)
