"""Which way edits move: what a wish means for a module, and shares that add up."""

from __future__ import annotations

import re

import numpy as np
import pytest

from se_rl.core.designer_training.wishes import WISHES, can_be_asked, following, move
from se_rl.modules.derivation import derivation
from se_rl.modules.edits import drawn_edit
from se_rl.modules.kinds import KINDS

DRAWN = """def reward(step):
    value = step.traded_share * (step.fill_price - step.mid_before)
    return value
"""
NETWORK = KINDS["network"].default_source


def with_term(term: str) -> str:
    return DRAWN.replace("    return", f"    value = value {term}\n    return")


def with_constant(name: str, line: str) -> str:
    """The default with another value of a constant that it sets, or with one more."""
    found, count = re.subn(rf"    {name} = .*\n", line, NETWORK)
    place = "    action_scale"  # constants have an order
    return found if count else NETWORK.replace(place, f"{line}{place}", 1)


MOVES = [
    ("passive", "reward", DRAWN, with_term("+ 0.5 * step.half_spread * step.passive_share")),
    ("passive", "network", NETWORK, with_constant("action_zero", "    action_zero = 0.5\n")),
    ("impact-averse", "reward", DRAWN, with_term("- 2.0 * step.own_impact * step.traded_share")),
    ("impact-averse", "reward", DRAWN, DRAWN.replace("mid_before", "no_order_mid")),
    ("bold", "network", with_constant("action_scale", "    action_scale = 0.5\n"), NETWORK),
    ("small", "reward", with_term("- 0.1 * step.volatility * step.traded_share"), DRAWN),
]


@pytest.mark.parametrize(("wish", "module", "before", "after"), MOVES)
def test_an_edit_moves_the_way_it_reads_and_back(
    wish: str, module: str, before: str, after: str
) -> None:
    assert derivation(before, module) is not None and derivation(after, module) is not None
    there = move(wish, module, before, after)
    assert there > 1e-3 and move(wish, module, after, before) == pytest.approx(-there)
    assert move(wish, module, before, before) == 0.0


def test_a_penalty_on_leaving_the_schedule_is_less_bold() -> None:
    term = "- 1.0 * step.volatility * (step.inventory_left - step.twap_inventory_left).square()"
    assert move("bold", "reward", DRAWN, with_term(term)) < -1e-3


def test_what_has_no_say_in_a_wish_does_not_move_it() -> None:
    slower = with_constant("learning_rate", "    learning_rate = 0.0003\n")
    assert move("passive", "network", NETWORK, slower) == 0.0
    assert move("small", "network", NETWORK, slower) == 0.0
    forced = with_term("- 0.5 * 0.0001 * step.forced_share")
    assert move("passive", "reward", DRAWN, forced) == 0.0
    with pytest.raises(ValueError, match="impact-averse means nothing for network; ask for it"):
        move("impact-averse", "network", NETWORK, slower)


def test_every_module_of_the_grammar_can_be_measured() -> None:
    rng = np.random.default_rng(0)
    for module, kind in KINDS.items():
        source = kind.default_source
        asked = can_be_asked(module, source)
        assert "small" in asked
        for wish in asked:
            after = drawn_edit(source, module, rng, changes=2) or source
            assert np.isfinite(move(wish, module, source, after))
    assert can_be_asked("reward", "def reward(step):\n    return 1.0 * step.news\n") == []
    assert set(WISHES) == {"passive", "impact-averse", "bold", "small"}


def test_shares_add_up() -> None:
    found = following([0.5, -0.1, 0.0, 2.0], [0, 0, 1, 1])
    assert (found.n, found.toward, found.away) == (4, 0.5, 0.25)
    # one net move of 0 at the first parent, of 1 at the second: a mean of 1/4 each edit, se 1/4
    assert found.net == 0.25 and found.ci95 == pytest.approx((0.25 - 3.177, 0.25 + 3.177), abs=1e-2)
    assert following([], []).n == 0
