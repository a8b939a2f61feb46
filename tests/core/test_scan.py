"""The scan of single edits: drawn in turn, or by what the design bank expects of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from se_rl.core import scan
from se_rl.core.scan import (
    CHAIN,
    HISTORY_ELSEWHERE,
    SingleEdit,
    bank_weights,
    chained_prompts,
    planned_chains,
    planned_scan,
    uses_bank,
)
from se_rl.data import catalog
from se_rl.modules.design_bank import surrogate as bank
from se_rl.modules.design_bank.surrogate import Prediction
from se_rl.modules.edits import changes_between
from se_rl.modules.kinds import KINDS
from se_rl.records.settings import preset
from se_rl.scoring.prospects import expected

CONFIG = preset("quick", arm="local")
MOST = CONFIG.parents * CONFIG.siblings


class LikesRewards:
    """Expects more of rewards than of networks, and of networks than of imagination."""

    def predict(self, designs: Sequence[Mapping[str, float]]) -> Prediction:
        found = []
        for words in designs:
            liked = sum(word.endswith("reward") for word in words)
            found.append(2.0 * liked + sum(word.endswith("network") for word in words))
        worth = np.array(found)
        return Prediction(worth, worth)


@pytest.fixture
def liking_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bank, "bank_surrogate", LikesRewards)
    monkeypatch.setattr(bank, "bank_words", lambda sources: dict.fromkeys(sources, 1.0))


def planned(**changes: Any) -> list[SingleEdit]:
    config = preset("quick", **{"arm": "local", **changes})
    return planned_scan(config, np.random.default_rng(3))


def test_without_the_bank_modules_take_turns() -> None:
    found = planned(bank_prior=False)
    assert [one.module for one in found] == [*CONFIG.modules] * 2
    assert len(set(found)) == MOST == 6
    for edit in found:
        usual = KINDS[edit.module].default_source
        assert len(changes_between(usual, edit.source, edit.module) or ()) == 1


@pytest.mark.usefixtures("liking_rewards")
def test_the_bank_chooses_but_no_module_has_more_than_half() -> None:
    found = planned(siblings=MOST)  # of one prompt: the other one has chains
    assert Counter(one.module for one in found) == {"reward": 3, "network": 3}
    assert len(set(found)) == MOST
    for arm in ("local", "full", "frozen"):
        assert found == planned(siblings=MOST, arm=arm)
    # among equals the order is drawn as without the bank
    drawn = [one for one in planned(bank_prior=False, siblings=60) if one.module == "reward"]
    assert [one for one in found if one.module == "reward"] == drawn[:3]


def test_what_is_expected_most_comes_first() -> None:
    found = planned(siblings=40)
    words = [bank.bank_words({one.module: one.source}) for one in found]
    expected = bank.bank_surrogate().predict(words).score(CONFIG.weights)
    everything = planned(siblings=400)
    assert len(found) == 40 and len(everything) == len(set(everything)) > 80
    for module in ("reward", "network"):
        own = [value for edit, value in zip(found, expected, strict=True) if edit.module == module]
        assert own == sorted(own, reverse=True)
    rest = [bank.bank_words({one.module: one.source}) for one in everything[40:]]
    left = bank.bank_surrogate().predict(rest).score(CONFIG.weights)
    assert expected.mean() > left.mean()


@pytest.mark.parametrize(
    "changes",
    [
        {"bank_prior": False},
        {"scan": False},
        {"scenario": "multi"},
        {"arm": "random"},
        {"arm": "best-of-n"},
    ],
    ids=str,
)
def test_runs_that_do_without_the_bank(changes: dict[str, Any]) -> None:
    assert uses_bank(preset("quick", arm="local"))
    assert not uses_bank(preset("quick", **{"arm": "local", **changes}))


def test_a_short_module_leaves_its_share_to_others() -> None:
    edits = [SingleEdit("reward", str(place)) for place in range(5)]
    assert scan._spread([*edits, SingleEdit("network", "a")], 4) == [
        *edits[:2],
        SingleEdit("network", "a"),
        edits[2],
    ]


def test_half_of_the_prompts_have_chains_where_the_bank_is_used() -> None:
    assert chained_prompts(CONFIG) == 1 and chained_prompts(preset("paper")) == 2
    assert len(planned()) == MOST / 2
    assert chained_prompts(preset("quick", bank_prior=False)) == 0
    assert chained_prompts(preset("tiny")) == 0  # its only prompt is the scan's


def test_chains_are_few_edits_that_the_bank_expects_more_of_than_of_any_single_one() -> None:
    found = planned_chains(CONFIG, 3, np.random.default_rng(5))
    assert found == planned_chains(CONFIG, 3, np.random.default_rng(5))
    assert len({tuple(sorted(one.items())) for one in found}) == 3
    single = max(expected({one.module: one.source}, CONFIG.weights) for one in planned())
    for chain in found:
        changes = 0
        for module, source in chain.items():
            changes += len(changes_between(KINDS[module].default_source, source, module) or ())
        assert 1 < changes <= CHAIN
        assert expected(chain, CONFIG.weights) > single


def test_chains_end_where_nothing_new_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "single_edits", lambda *_: [])
    assert planned_chains(CONFIG, 3, np.random.default_rng(0)) == []


@pytest.mark.parametrize("worlds", ["both", "static", "dynamic"])
def test_on_other_days_the_bank_is_heard_for_simulated_markets_first(
    worlds: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "data_home", lambda: tmp_path)
    config = preset("quick", arm="local", worlds=worlds)
    assert bank_weights(config) == config.weights
    elsewhere = {**config.weights, "static": HISTORY_ELSEWHERE * config.weights["static"]}
    assert bank_weights(preset("quick", worlds=worlds, data="own.parquet")) == elsewhere
    assert uses_bank(config)
    assert uses_bank(preset("quick", arm="local", worlds=worlds, data="own.parquet")) == (
        worlds != "static"
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nasdaq100").touch()  # a file goes before a name
    assert bank_weights(config) == elsewhere
    (tmp_path / "nasdaq100").rename("nasdaq100.parquet")  # imported bars have the name now
    assert bank_weights(config) == elsewhere


def test_what_the_bank_expects_of_history_plans_little_on_other_days() -> None:
    def gained(data: str) -> tuple[float, float]:
        chains = planned_chains(preset("quick", data=data), 6, np.random.default_rng(5))
        found = bank.bank_surrogate().predict([bank.bank_words(one) for one in chains])
        return float(found.history.mean()), float(found.simulated.mean())

    home, elsewhere = gained("nasdaq100"), gained("own.parquet")
    assert home[0] > 2.0 * elsewhere[0] and elsewhere[1] > 2.0 * home[1]
