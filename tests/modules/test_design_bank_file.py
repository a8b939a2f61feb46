"""The bank as a file, designs as words, and the surrogate on a bank whose truth is known."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal, spearmanr
from tiny_bank import HEAD, MODULES, tiny_bank, tiny_lines, worth

from se_rl.modules.design_bank.readings import BankScore
from se_rl.modules.design_bank.storage import DesignBank, read_bank, write_bank
from se_rl.modules.design_bank.surrogate import (
    LAST,
    SEARCH,
    SHORT,
    STRENGTHS,
    Examples,
    Surrogate,
    level_of,
    spread_of,
    squashed,
)
from se_rl.modules.design_bank.words import design_words, module_words
from se_rl.modules.design_bank.written import written_edits
from se_rl.modules.edits import EditLanguage, single_edits
from se_rl.modules.kinds import KINDS

EQUAL = {"static": 0.5, "dynamic": 0.5}
BANK = tiny_bank(100)
SURROGATE = Surrogate(Examples.of(BANK), BANK.default.words)


def test_a_file_holds_all_of_a_bank(tmp_path: Path) -> None:
    lines = tiny_lines(8)
    place = tmp_path / "bank.parquet"
    write_bank(place, HEAD, lines)
    found = read_bank(place)
    assert found.head == HEAD
    assert len(found.designs) == len({line.design.id for line in lines})
    assert len(found.lines) == len(lines)
    for stored, line in zip(found.lines, lines, strict=True):
        assert stored.design == line.design and stored.reason == line.reason
        assert (stored.rung, stored.seed) == (line.rung, line.seed)
        if line.score is None:
            assert stored.score is None
        else:
            assert stored.score is not None
            assert vars(stored.score) == pytest.approx(vars(line.score), rel=1e-6)


def test_a_missing_file_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--pack"):
        read_bank(tmp_path / "none.parquet")


def test_a_bank_without_its_default_is_refused() -> None:
    lines = [line for line in tiny_lines(4) if line.design.kind != "default"]
    with pytest.raises(ValueError, match="no training of the default"):
        _ = DesignBank(HEAD, lines).default


def test_neighbours_share_words_and_free_modules_have_one() -> None:
    default = design_words({}, MODULES)
    for module in MODULES:
        edits = single_edits(KINDS[module].default_source, module, np.random.default_rng(0))
        for source in edits:
            assert design_words({module: source}, MODULES) != default
    assert module_words("def reward(step):\n    return step.news\n", "reward") == ("reward: free",)
    widths = [word for word in default if word.startswith("network.width above")]
    assert len(widths) == 5  # 64 is the sixth of the widths


def test_levels_are_told_by_rung_and_work() -> None:
    line = tiny_lines(1)[0]
    found = [
        level_of(replace(line, rung=rung, work=work), HEAD)
        for rung, work in ((1, 0.3), (1, 1.0), (2, 3.0))
    ]
    assert found == [SHORT, SEARCH, LAST]


def test_the_default_gains_nothing() -> None:
    found = SURROGATE.predict([BANK.default.words])
    assert found.score(EQUAL) == pytest.approx([0.0], abs=1e-12)


def test_designs_that_it_has_not_seen_are_ranked() -> None:
    others = tiny_lines(120, seed=1)
    new = {line.design.id: line.design for line in others}
    for one in BANK.designs:
        new.pop(one.design.id, None)
    words = [design_words(design.sources, MODULES) for design in new.values()]
    found = SURROGATE.predict(words, level=SEARCH)
    true = [worth(design) for design in new.values()]
    assert spearmanr(found.score(EQUAL), true).statistic > 0.6


def test_evidence_is_that_of_normal_readings() -> None:
    examples = Examples.of(tiny_bank(6))
    heights = squashed(examples.gains / spread_of(examples.gains))
    found = []
    for luck in (0.1, 0.4):
        surrogate = Surrogate(examples, BANK.default.words, replace(STRENGTHS, luck=luck))
        covariance = np.linalg.inv(surrogate._inverse)
        density = multivariate_normal(np.zeros(len(heights)), covariance)
        found.append((surrogate.evidence, float(density.logpdf(heights.T).sum())))
    (first, true), (second, other) = found
    assert second - first == pytest.approx(other - true)


def test_a_seed_that_alike_designs_share_tells_less_of_them() -> None:
    examples = Examples.of(BANK)
    once = examples.some(examples.seed == 0)
    words = [one.words for one in BANK.designs[1:]]
    sizes = []
    for family in (0.0, 1.0):
        strengths = replace(STRENGTHS, family=family)
        found = Surrogate(once, BANK.default.words, strengths).predict(words).score(EQUAL)
        sizes.append(np.median(np.abs(found)))
    assert sizes[1] < 0.8 * sizes[0]


def test_a_design_with_many_readings_is_learned_as_if_each_stood_alone() -> None:
    examples = Examples.of(tiny_bank(6))
    fitted = Surrogate(examples, BANK.default.words)
    words = [one.words for one in examples.designs]
    for level in (SHORT, SEARCH, LAST):
        rows = fitted._matrix(words)
        place = [int(np.flatnonzero((fitted._rows == row).all(1))[0]) for row in rows]
        agree = np.where(examples.level == level, 1.0, STRENGTHS.agreement)
        mean = (fitted._covariance(rows)[:, place] * agree) @ fitted._dual
        found = fitted.predict(words, level=level)
        expected = np.sinh(mean) * spread_of(examples.gains)
        assert np.stack([found.history, found.simulated], 1) == pytest.approx(expected)


def test_words_that_nobody_banked_are_ignored() -> None:
    words = {**BANK.default.words, "network.width: 7": 1.0}
    assert SURROGATE.predict([words]).score(EQUAL) == pytest.approx([0.0], abs=1e-12)


def test_failed_trainings_and_the_default_teach_nothing() -> None:
    examples = Examples.of(BANK)
    scored = sum(line.score is not None for line in BANK.lines)
    assert len(examples.designs) == scored - 4  # the default's
    with pytest.raises(ValueError, match="no scored design"):
        Surrogate(examples.some(np.zeros(len(examples.seed), bool)), BANK.default.words)


def test_readings_are_held_against_the_default_of_their_seed() -> None:
    lines = []
    for line in tiny_lines(6):
        shift = 10.0 * line.seed  # luck of the day that both had
        score = line.score
        if score is not None:
            score = BankScore(
                **vars(score)
                | {"history": score.history + shift, "simulated": score.simulated - shift}
            )
        lines.append(replace(line, score=score))
    shifted, plain = Examples.of(DesignBank(HEAD, lines)), Examples.of(tiny_bank(6))
    assert shifted.gains == pytest.approx(plain.gains)


def test_edits_are_texts_that_a_model_could_write() -> None:
    found = written_edits(BANK, EQUAL)
    assert len({one.text for one in found}) == len(found) > 20
    ranks = [one.worth for one in found]
    assert min(ranks) == -1.0 and max(ranks) == 1.0
    scanned = [one.design for one in BANK.designs if one.design.kind == "scan"]
    (module, source), *_ = scanned[0].sources.items()
    sentence = EditLanguage(KINDS[module].default_source, module).written(source)
    assert sentence in {one.text for one in found}
    best = max(found, key=lambda one: one.worth)
    assert best.text.startswith(("def ", "class ", "import ")) or ": " in best.text


def test_the_package_has_a_bank_that_opens_at_once_and_without_pandas() -> None:
    code = (
        "import sys, time\n"
        "from se_rl.modules.design_bank.storage import load_bank\n"
        "from se_rl.modules.design_bank.surrogate import bank_surrogate, bank_words\n"
        "started = time.process_time()\n"
        "found = bank_surrogate().predict([bank_words(load_bank().head.default)])\n"
        "assert abs(found.history[0]) < 1e-9\n"
        "print(time.process_time() - started, 'pandas' in sys.modules, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, *loaded = done.stdout.split()
    assert loaded == ["False", "False"]
    assert float(seconds) < 5.0  # about half a second where nobody else computes
