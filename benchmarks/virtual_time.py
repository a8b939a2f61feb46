"""Queues in virtual time: servers with so many places, and work that waits for one of them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Then = Callable[[], None]
"""What happens when something is done."""


class Clock:
    """Virtual time: what is planned happens in order, and takes no time of ours."""

    def __init__(self) -> None:
        self.now = 0.0
        self._planned: list[tuple[float, int, Then]] = []
        self._numbers = count()

    def after(self, seconds: float, then: Then) -> None:
        """Plan something."""
        heappush(self._planned, (self.now + seconds, next(self._numbers), then))

    def run(self) -> None:
        """Let everything happen."""
        while self._planned:
            self.now, _, then = heappop(self._planned)
            then()


class Server:
    """Serves `places` pieces of work at once, the others in order; knows how long each kind took."""

    def __init__(self, clock: Clock, places: int = 1) -> None:
        self.places = places
        self.spent: Counter[str] = Counter()
        self._clock = clock
        self._free = places
        self._waiting: deque[tuple[str, float, Then]] = deque()

    def serve(self, kind: str, seconds: float, then: Then) -> None:
        """Serve a piece of work as soon as there is a place."""
        self._waiting.append((kind, seconds, then))
        self._begin()

    def share(self, *kinds: str) -> float:
        """The share of its places' time until now that these kinds took, or all of them."""
        took = sum(self.spent[kind] for kind in kinds or self.spent)
        return took / (self.places * self._clock.now)

    def _begin(self) -> None:
        while self._free and self._waiting:
            kind, seconds, then = self._waiting.popleft()
            self._free -= 1
            self.spent[kind] += seconds  # type: ignore[assignment]
            self._clock.after(seconds, lambda then=then: self._end(then))  # type: ignore[misc]

    def _end(self, then: Then) -> None:
        self._free += 1
        self._begin()
        then()


def when_all(tasks: int, then: Then) -> Then:
    """Something to call after each of so many tasks; after the last one, `then` happens."""
    left = [tasks]

    def one_ended() -> None:
        left[0] -= 1
        if left[0] == 0:
            then()

    return one_ended
