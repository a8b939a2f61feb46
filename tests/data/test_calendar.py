"""Session grids: which labels a day has, and which grid a set of labels belongs to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from se_rl.data.calendar import LABELS, SessionGrid, infer_grid, session_grid

KINDS = [
    (exchange, length, label)
    for exchange in ("XNYS", "XSHG", "XNSE")
    for length in (1, 5, 15)
    for label in LABELS
    if not (exchange == "XNSE" and length == 15 and label == "end")  # no label before 9:30
]


@pytest.mark.parametrize(
    ("exchange", "bar_minutes", "label", "bars", "edges"),
    [
        ("XNYS", 1, "start", 390, (570, 959)),
        ("XNYS", 1, "end", 390, (571, 960)),
        ("XNYS", 1, "open+end", 391, (570, 960)),
        ("XNYS", 5, "start", 78, (570, 955)),
        ("XSHG", 1, "start", 240, (570, 899)),
        ("XSHG", 1, "open+end", 241, (570, 900)),
        ("XSHG", 5, "end", 48, (575, 900)),
        ("XSHG", 15, "end", 16, (585, 900)),
        ("XNSE", 1, "start", 375, (555, 929)),
        ("XNSE", 15, "start", 25, (555, 915)),
    ],
)
def test_a_full_session_has_the_labels_of_its_exchange(
    exchange: str, bar_minutes: int, label: str, bars: int, edges: tuple[int, int]
) -> None:
    grid = session_grid(exchange, bar_minutes=bar_minutes, label=label)
    assert len(grid) == len(grid.minutes) == bars and (grid.minutes[0], grid.minutes[-1]) == edges
    assert (grid.exchange, grid.bar_minutes, grid.label) == (exchange, bar_minutes, label)
    assert sorted(set(grid.minutes)) == list(grid.minutes)


def test_no_bar_of_shanghai_lies_in_the_lunch_break() -> None:
    assert not set(session_grid("XSHG").minutes) & set(range(690, 780))
    assert not set(session_grid("XSHG", label="end").minutes) & set(range(691, 781))


def test_the_opening_print_comes_before_the_first_full_minute() -> None:
    extra, plain = session_grid("XNYS", label="open+end"), session_grid("XNYS", label="end")
    assert extra.minutes == (570, *plain.minutes)


def test_time_zones_are_those_of_the_exchanges() -> None:
    assert (
        session_grid("XNYS").time_zone == "America/New_York"
        and session_grid("XSHG").time_zone == "Asia/Shanghai"
    )
    assert session_grid("XNSE").time_zone == "Asia/Kolkata"
    assert SessionGrid("continuous", 1, "start", (0, 1)).time_zone == "UTC"


@pytest.mark.parametrize("kind", KINDS)
def test_positions_and_minutes_are_each_other_s_inverse(kind: tuple[str, int, str]) -> None:
    grid = session_grid(kind[0], bar_minutes=kind[1], label=kind[2])
    assert grid.positions.shape == (1441,)
    assert grid.positions[list(grid.minutes)].tolist() == list(range(len(grid)))
    assert int(np.sum(grid.positions >= 0)) == len(grid)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"exchange": "XLON"}, "exchange 'XLON' has no fixed hours"),
        ({"exchange": "continuous"}, "exchange 'continuous' has no fixed hours"),
        ({"exchange": "XNYS", "label": "middle"}, "bar label 'middle' is unknown"),
    ],
)
def test_unknown_hours_and_labels_are_refused_in_one_line(
    options: dict[str, str], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as error:
        session_grid(**options)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_set_of_labels_names_its_grid(kind: tuple[str, int, str]) -> None:
    grid = session_grid(kind[0], bar_minutes=kind[1], label=kind[2])
    assert infer_grid(np.tile(grid.minutes, 3)) == grid
    assert infer_grid(np.array(grid.minutes), bar_minutes=kind[1]) == grid


@given(st.sampled_from([kind for kind in KINDS if kind[0] != "XNSE"]), st.data())
def test_an_inferred_grid_holds_the_labels_and_is_no_longer_than_theirs(
    kind: tuple[str, int, str], data: st.DataObject
) -> None:
    source = session_grid(kind[0], bar_minutes=kind[1], label=kind[2])
    labels = np.array(data.draw(st.lists(st.sampled_from(source.minutes), min_size=1)))
    grid = infer_grid(labels)
    assert grid is not None and np.all(grid.positions[labels] >= 0) and len(grid) <= len(source)


def test_a_few_strays_are_borne_and_many_are_not() -> None:
    day = np.array(session_grid("XNYS").minutes)
    strays = np.array([400, 401, 402])
    assert infer_grid(np.concatenate([day, strays])) == session_grid("XNYS")
    assert infer_grid(np.concatenate([day, strays, strays])) is None
    assert infer_grid(np.concatenate([day, [-5, 2000]])) == session_grid("XNYS")


@pytest.mark.parametrize("minutes", [range(1440), range(480, 1020), [100, 200]])
def test_labels_of_other_hours_fit_no_grid(minutes: range | list[int]) -> None:
    assert infer_grid(np.array(minutes)) is None


def test_a_told_bar_length_is_kept() -> None:
    quarter_hours = np.array(session_grid("XSHG", bar_minutes=15).minutes)
    assert infer_grid(quarter_hours, bar_minutes=5) == session_grid("XSHG", bar_minutes=5)
    assert infer_grid(np.array(session_grid("XSHG").minutes), bar_minutes=15) is None


def test_mumbai_is_told_from_new_york_by_its_first_quarter_of_an_hour() -> None:
    mumbai = session_grid("XNSE", bar_minutes=15)
    assert infer_grid(np.tile(mumbai.minutes, 4)) == mumbai
    cut_short = np.array([minute for minute in session_grid("XNYS").minutes if minute < 930])
    assert infer_grid(cut_short) == session_grid("XNYS")
