"""Multi-agent searches: every module is designed, protocols are held against silence, markets against the usual ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from test_search import SMALL, Script, Shop

from se_rl.core.designers import Designers
from se_rl.core.module_credits import judged_modules
from se_rl.core.operators import Proposed, hashes
from se_rl.core.run import make_kit
from se_rl.core.search import Search
from se_rl.core.training_loop import evolve
from se_rl.modules.kinds import KINDS
from se_rl.modules.kinds.communication import SILENCE
from se_rl.modules.loading import load_design
from se_rl.records.archive import Archive
from se_rl.records.entries import WITHOUT, Candidate, design_id
from se_rl.records.settings import MULTI, preset

WORTH = {"reward": 0.1, "network": 0.1, "communication": 0.5, "profiling": 0.3, "imagination": 0.1}
PROTOCOL = "class Communication(nn.Module):\n    pass\n"
MARKET = "def profile():\n    return {'maker_lots': 6.0}\n"


class ModuleShop(Shop):
    """Trains at no cost, and without luck: designed modules are worth what is planted, silence nothing."""

    def __init__(self, archive: Archive) -> None:
        super().__init__(archive)
        self.world = replace(SMALL, own_sd=0.0, seed_sd=0.0, restless_sd=0.0, own_bet_sd=0.0)

    def evaluate(self, jobs: Sequence[Any]) -> Iterator[tuple[Any, Any, bool]]:
        for job, evaluation, stored in super().evaluate(jobs):
            sources = self.archive.sources(job.candidate)
            worth = sum(WORTH[name] for name, text in sources.items() if text != SILENCE)
            self.effects[job.candidate.id] = (worth,) * 3
            yield job, evaluation, stored


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with Archive.open(tmp_path / "archive.sqlite") as opened:
        yield opened


def search_of(archive: Archive, **changes: Any) -> Search:
    config = preset("quick", scenario="multi", seeds=(1, 2, 3), **changes)
    shop = cast(Any, ModuleShop(archive))
    designers = Designers("scripted", archive, shop, seed=0, designer=cast(Any, Script()))
    return Search(config, archive, shop, designers, make_kit(config))


def proposed(sources: dict[str, str], module: str) -> Proposed:
    name, parent = design_id(hashes(sources)), design_id({})
    candidate = Candidate(name, hashes(sources), "edit", (parent,), module, iteration=1)
    return Proposed(candidate, sources, {})


def test_a_protocol_earns_credit_against_silence_and_a_market_against_the_usual_ones(
    archive: Archive,
) -> None:
    search = search_of(archive)
    search.begin()
    both = {"communication": PROTOCOL, "profiling": MARKET}
    one, two = proposed(both, "communication"), proposed({"profiling": MARKET}, "profiling")
    designs = [search.designs.record(each) for each in (one, two)]
    assert set(search.train(designs)) == {one.candidate.id, two.candidate.id}
    found = {(c.candidate, c.module): c for c in search.credits.found()}
    assert set(found) == {(one.candidate.id, "communication"), (two.candidate.id, "profiling")}
    protocol, market = (found[each.candidate.id, each.candidate.module] for each in (one, two))
    assert (protocol.against, market.against) == ("silence", "the usual markets")
    assert protocol.credit == pytest.approx(0.5) and market.credit == pytest.approx(0.3)
    assert protocol.seeds == 3 and protocol.se > 0.0, "screen and race count together"
    standing = archive.standings()[one.candidate.id, 1]
    assert standing.credits["communication"] == pytest.approx((protocol.credit, protocol.se))
    finalists = search.finals([])
    at_last = {c.module: c for c in search.credits.found() if c.rung == 2}
    assert one.candidate.id in finalists and set(at_last) == {"communication", "profiling"}
    assert at_last["profiling"].credit == pytest.approx(0.3)


def test_a_counterpart_is_no_proposal_and_cannot_lead(archive: Archive) -> None:
    search = search_of(archive)
    search.begin()
    one = proposed({"communication": PROTOCOL, "reward": "r"}, "communication")
    search.train([search.designs.record(one)])
    references = [c for c in archive.candidates() if c.operator == WITHOUT]
    assert [archive.sources(c)["communication"] for c in references] == [SILENCE]
    assert not {c.id for c in references} & {*search.ladder.climbed, *search.designs.candidates}
    assert set(search.ladder.ranking()) == {one.candidate.id} and search.counts()["proposed"] == 1
    trained = sum(search.ladder.evaluator.trained.values())  # type: ignore[attr-defined]
    search.credits.judge([one.candidate.id], search.config.rungs.search)
    again = sum(search.ladder.evaluator.trained.values())  # type: ignore[attr-defined]
    assert trained == again, "what was judged is not trained again"


def test_the_usual_design_is_its_own_counterpart_of_a_market(archive: Archive) -> None:
    search = search_of(archive)
    search.begin()
    search.train([search.designs.record(proposed({"profiling": MARKET}, "profiling"))])
    assert not [c for c in archive.candidates() if c.operator == WITHOUT]


def test_a_step_is_worth_no_more_than_the_credit_of_its_module(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = search_of(archive)
    search.begin()
    good = search.designs.record(proposed({"communication": PROTOCOL}, "communication"))
    other = search.designs.record(proposed({"reward": "r"}, "reward"))
    search.train([good, other])
    assert search.credits.earned(good.candidate, 2.0) == pytest.approx(0.5)
    assert search.credits.earned(good.candidate, 0.2) == 0.2
    assert search.credits.earned(other.candidate, 2.0) == 2.0, "others are held against parents"


def test_only_what_was_changed_is_judged_in_the_race() -> None:
    modules = dict.fromkeys(MULTI, "hash")
    whole = Candidate("a", modules, "random", module="")
    assert judged_modules(whole) == ["communication", "profiling"]
    assert judged_modules(replace(whole, module="reward")) == []
    assert judged_modules(replace(whole, module="profiling")) == ["profiling"]
    assert len(judged_modules(replace(whole, module="reward"), carried=True)) == 2


def test_silence_is_a_valid_protocol() -> None:
    import torch

    heard = load_design({"communication": SILENCE}).communication(4, 8)
    assert not heard(torch.ones(2, 4, 8)).any()
    assert KINDS["reward"].counterpart is None


@pytest.mark.parametrize("scan", [True, False])
@pytest.mark.parametrize("arm", ["local", "random"])
def test_every_module_is_designed_in_every_run(arm: str, scan: bool, archive: Archive) -> None:
    search = search_of(archive, arm=arm, scan=scan, iterations=5, parents=1, siblings=1)
    evolve(search)
    use = search.module_use()
    assert list(use) == list(MULTI) and all(one.proposed >= 1 for one in use.values())
    assert sum(one.scored for one in use.values()) >= 5
    best = use["communication"]
    assert (
        best.best_gain >= WORTH["communication"] - 1e-6 and best.best in search.designs.candidates
    )


def test_four_agents_are_the_default() -> None:
    assert preset("quick", scenario="multi").book_agents == 4 and preset("quick").book_agents == 1
