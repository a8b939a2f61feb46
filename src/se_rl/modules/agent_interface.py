"""What an agent sees and does, where a design asks for other than the usual: two catalogues.

A network names further inputs and the kind of its actions as class attributes, `inputs` and
`actions`. Inputs of bars have their formulas in `data.bar_inputs`, those of books in
`environments.further_inputs`; `rl.action_maps` has the maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from se_rl.bounded_reading import shown
from se_rl.data.bar_inputs import BAR_INPUTS, BarInputs, ShownBars
from se_rl.data.features import OBSERVATION_FIELDS

FLOW_STEPS = (1, 5, 15)
"""Spans over which flows are counted."""
OWN_LEVELS = 5
"""Best prices of the own side at which own shares are shown."""
DEEP_LEVELS = 5
"""Levels of each side that are shown behind those of the usual observation."""
BOOK_FIELDS = 11
"""Numbers of the usual observation that are a book's: sizes of both sides and their imbalance."""


@dataclass(frozen=True)
class FurtherInput:
    """Numbers that stand behind the usual observation where they are asked for.

    They have no dimension, are known when a step is decided, and are turned as the usual ones are:
    a buyer sees the market upside down. Those of a book are 0 on history, those of bars are 0 in
    simulated markets.
    """

    width: int
    help: str
    of_bars: bool = False


def _flows() -> dict[str, FurtherInput]:
    found = {}
    for steps in FLOW_STEPS:
        span = "the last step" if steps == 1 else f"the last {steps} steps"
        found[f"market_flow_{steps}"] = FurtherInput(
            1, f"market orders of {span}: bought less sold, over all that was traded"
        )
        found[f"limit_flow_{steps}"] = FurtherInput(
            1,
            f"limit orders of {span} less cancels: to buy less to sell, over the usual volume of"
            " that time",
        )
    return found


FURTHER_INPUTS: dict[str, FurtherInput] = {
    "own_lots": FurtherInput(
        OWN_LEVELS,
        f"our shares that rest at the {OWN_LEVELS} best prices of our side, over what is left of"
        " the order",
    ),
    "lots_ahead": FurtherInput(
        1, "what stands ahead of our resting order, over that and ours; 0 where none rests"
    ),
    "deep_queues": FurtherInput(
        2 * DEEP_LEVELS,
        "log of the sizes of levels 6 to 10 over the usual best size: bids, then asks",
    ),
    "book_before": FurtherInput(
        BOOK_FIELDS,
        "the sizes and the imbalance of the usual observation as they were one step before; at the"
        " first step as they are",
    ),
    **_flows(),
    "spread_age": FurtherInput(1, "steps since the spread changed, over 15, at most 1"),
    "drift": FurtherInput(
        1, "log move of the mid since the order arrived, in its usual standard deviations"
    ),
    **{name: FurtherInput(1, meant, of_bars=True) for name, meant in BAR_INPUTS.items()},
}
"""What a network may ask to see beside the usual observation, by name."""

USUAL_ACTIONS = "price"
ACTION_KINDS: dict[str, str] = {
    USUAL_ACTIONS: "share of what is left and, where the world takes one, the limit's price",
    "ratio": "share of what is left, at the neutral price",
    "slices": "one of 1, 0, 1/2, 2 and 4 neutral slices, at the neutral price",
}
"""What a network's outputs may mean, by name."""


@dataclass(frozen=True)
class AgentInterface:
    """What one network asks for: names of FURTHER_INPUTS, and one of ACTION_KINDS."""

    inputs: tuple[str, ...] = ()
    actions: str = USUAL_ACTIONS

    @classmethod
    def checked(cls, inputs: object, actions: object) -> AgentInterface:
        """The interface, if the catalogues have all that it names, none of it twice; else a
        ValueError of one line."""
        known = ", ".join(FURTHER_INPUTS)
        if not isinstance(inputs, list | tuple):
            raise ValueError(f"inputs is {shown(inputs)}; give a tuple of names out of {known}")
        for place, name in enumerate(inputs):
            if not isinstance(name, str) or name not in FURTHER_INPUTS:
                raise ValueError(f"inputs has {shown(name)}, which is unknown; choose from {known}")
            if name in inputs[:place]:
                raise ValueError(f"inputs has {shown(name)} twice; name it once")
        if not isinstance(actions, str) or actions not in ACTION_KINDS:
            raise ValueError(f"actions is {shown(actions)}; choose from {', '.join(ACTION_KINDS)}")
        return cls(tuple(inputs), actions)


USUAL_INTERFACE = AgentInterface()
"""What a network has that asks for nothing."""


def further_width(inputs: Sequence[str]) -> int:
    """Numbers that these inputs add to an observation."""
    return sum(FURTHER_INPUTS[name].width for name in inputs)


def shown_bars(inputs: Sequence[str], bars: BarInputs) -> ShownBars:
    """What history shows of these inputs; 0 for those that bars do not tell."""
    known = list(BAR_INPUTS)
    columns: list[int] = []
    places: list[int] = []
    for place, name in enumerate(inputs):
        if name in BAR_INPUTS:
            columns.append(known.index(name))
            places.append(len(OBSERVATION_FIELDS) + further_width(inputs[:place]))
    width = further_width(inputs)
    if not columns:
        return ShownBars.none(width)
    return ShownBars(bars.table, np.array(columns, np.int64), np.array(places, np.int64), width)
