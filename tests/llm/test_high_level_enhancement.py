"""Instructions that earn credit: the population's laws, what prompts learn from, advice under a grammar, refinement."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer
from tiny_model import build_model

from se_rl.config import ConfigError
from se_rl.data.cache import cache_folder
from se_rl.llm.backends import LlmError, Proposal, Request, Unsupported
from se_rl.llm.catalog import resolve
from se_rl.llm.high_level_enhancement import HighLevelEnhancement
from se_rl.llm.instruction_grammar import (
    ADVICE,
    ADVICE_BYTES,
    KINDS,
    MACRO,
    MOST_WORDS,
    SHARPER,
    Tried,
    cleaned,
    crossed,
    instruction_grammar,
    mutated,
    random_advice,
)
from se_rl.llm.instruction_population import InstructionPopulation, new_instruction
from se_rl.llm.local import LocalDesigner
from se_rl.llm.performance_buffer import NOISE_RATIO, PerformanceBuffer
from se_rl.llm.prompts import HIDDEN, anonymous, build_prompt, default_macro, default_micro
from se_rl.market.profile import PROFILE_RANGES, MarketProfile
from se_rl.modules.kinds import KINDS as MODULE_KINDS
from se_rl.records.enhancement import InstructionCredit
from se_rl.records.entries import DEFAULT, Instruction, key_of

REAL_CACHE = cache_folder()  # the user's own, asked for before tests get a private cache
BYTES = LLTokenizer("byte")
OPENING = default_macro().split(". ")[0] + "."


def advice(kind: str, number: int) -> Instruction:
    return new_instruction(kind, f"Try idea {number} of {kind}.", operator="mutation")


def credits(population: InstructionPopulation) -> dict[str, float]:
    return {booked.id: booked.credit for booked in population.credits()}


def filled(
    kind: str, gains: Sequence[float], **options: Any
) -> tuple[InstructionPopulation, list[str]]:
    """A population with one instruction of a kind for each gain beside the default, and their names."""
    population = InstructionPopulation(**options)
    members = [advice(kind, i) for i in range(len(gains))]
    for member, gain in zip(members, gains, strict=True):
        assert population.add(member)
        population.credit(member.id, gain)
    return population, [member.id for member in members]


def test_it_starts_with_the_defaults() -> None:
    population = InstructionPopulation()
    members = population.members()
    assert [(one.kind, one.text) for one in members] == [
        (MACRO, default_macro()),
        *((name, default_micro(name)) for name in MODULE_KINDS),
    ]
    assert all(one.id == key_of(one.kind, one.text)[:12] for one in members)
    assert all(one.operator == DEFAULT for one in members)
    assert population.credits() == [InstructionCredit(one.id, 0.0, 0) for one in members]


def test_bad_settings_are_refused_in_one_line() -> None:
    for wrong in ({"limit": 5}, {"replay": 1.5}, {"temperature": 0.0}):
        with pytest.raises(ConfigError, match="give"):
            InstructionPopulation(**wrong)
    with pytest.raises(ConfigError, match="limit of tries to remember is 0"):
        PerformanceBuffer(0)
    population = InstructionPopulation()
    with pytest.raises(ValueError, match="kind is 'poem'"):
        population.add(advice("poem", 1))
    assert new_instruction("reward", "Sell AAPL.", operator="mutation").text == f"Sell {HIDDEN}."
    for id, gain in (("nobody", 1.0), (population.best(MACRO).id, float("nan"))):
        with pytest.raises(ValueError, match="give a known instruction"):
            population.credit(id, gain)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "credit", "credit", "age", "sample"]),
        st.sampled_from([MACRO, "reward"]),
        st.integers(0, 6),
        st.floats(-9, 9),
    ),
    min_size=20,
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, limit=st.integers(6, 10))
def test_the_population_keeps_its_laws(
    steps: list[tuple[str, str, int, float]], limit: int
) -> None:
    population, rng = InstructionPopulation(limit), np.random.default_rng(1)
    defaults = {one.id for one in population.members()}
    for action, kind, number, gain in steps:
        before, best = credits(population), {name: population.best(name).id for name in KINDS}
        newcomer = advice(kind, number)
        if action == "add":
            is_new = population.add(newcomer)
            after = credits(population)
            assert not (is_new and newcomer.id in before)
            assert defaults | set(best.values()) <= set(after) <= set(before) | {newcomer.id}
            if is_new:
                left = set(before) - set(after)
                idle = set(before) - defaults - set(best.values())
                assert newcomer.id in after and len(left) == (len(before) == limit)
                assert all(before[one] == min(before[other] for other in idle) for one in left)
            else:
                assert after == before and (newcomer.id in before or len(before) == limit)
        elif action == "credit" and newcomer.id in before:
            population.credit(newcomer.id, gain)
        elif action == "age":
            population.age()
        elif action == "sample":
            assert population.sample(kind, rng).instruction.id in before
        assert len(population) <= limit and defaults <= set(credits(population))


def test_a_duplicate_makes_no_slot() -> None:
    population = InstructionPopulation()
    assert population.add(new_instruction("reward", "Punish risk, hard!", operator="mutation"))
    for text in ("Punish risk, hard!", "  punish Risk hard", "", " ... "):
        assert not population.add(new_instruction("reward", text, operator="reflection"))
    assert population.add(new_instruction("network", "Punish risk, hard!", operator="mutation"))
    assert len(population) == 8


def test_one_that_comes_back_finds_its_account() -> None:
    population, (first, second) = filled("reward", [-2.0, 1.0], limit=8)
    assert population.add(advice("reward", 7)) and first not in credits(population)
    population.credit(first, -4.0)
    population.credit(key_of("reward", "Try idea 7 of reward.")[:12], -9.0)
    assert population.add(advice("reward", 0))
    assert (
        credits(population)[first] == pytest.approx(-6.0 / (4 + 2))
        and credits(population)[second] == 0.2
    )


@given(
    rounds=st.lists(
        st.lists(st.tuples(st.floats(-50, 50), st.floats(0.1, 5)), max_size=4),
        min_size=1,
        max_size=8,
    )
)
def test_credit_is_the_closed_form(rounds: list[list[tuple[float, float]]]) -> None:
    population = InstructionPopulation()
    id = population.best("reward").id
    gained, weights = 0.0, 0.0
    for i, gains in enumerate(rounds):
        decay = 0.95 ** (len(rounds) - 1 - i)
        gained += decay * sum(weight * gain for gain, weight in gains)
        weights += decay * sum(weight for _, weight in gains)
        for gain, weight in gains:
            population.credit(id, gain, weight=weight)
        if i < len(rounds) - 1:
            population.age()
    (booked,) = [one for one in population.credits() if one.id == id]
    assert booked.credit == pytest.approx(gained / (weights + 4), abs=1e-9)
    assert booked.uses == sum(map(len, rounds))


@pytest.mark.parametrize("shift", [0.0, -30.0])
def test_draws_follow_credit_whatever_its_sign(shift: float) -> None:
    population, ids = filled("reward", [shift + gain for gain in (-2.0, 0.0, 1.0, 5.0)], replay=0.0)
    ids.append(next(one.id for one in population.members() if one.text == default_micro("reward")))
    population.credit(ids[-1], shift)
    values = credits(population)
    heights = np.array([values[id] for id in ids])
    chances = np.exp((heights - heights.mean()) / heights.std())
    chances /= chances.sum()
    rng, n = np.random.default_rng(3), 3000
    seen = Counter(population.sample("reward", rng).instruction.id for _ in range(n))
    for id, chance in zip(ids, chances, strict=True):
        assert abs(seen[id] / n - chance) < 4.5 * sqrt(chance * (1 - chance) / n)


def test_equal_credits_are_drawn_alike() -> None:
    population, _ = filled("network", [0.0] * 7, replay=0.0)
    rng, n = np.random.default_rng(4), 2000
    seen = Counter(population.sample("network", rng).instruction.id for _ in range(n))
    assert len(seen) == 8 and all(
        abs(count / n - 1 / 8) < 4.5 * sqrt(7) / 8 / sqrt(n) for count in seen.values()
    )


def test_one_draw_in_ten_is_an_old_instruction() -> None:
    population, ids = filled("reward", [0.0] * 40)
    for _ in range(50):
        population.credit(ids[0], 100.0)
    rng, n = np.random.default_rng(5), 2000
    assert not any(
        population.sample("reward", rng).replayed for _ in range(40)
    )  # nothing is old yet
    for _ in range(4):
        population.age()
    replays, drawn_at = 0, dict.fromkeys(credits(population), 0)
    for iteration in range(4, 4 + n):
        choice = population.sample("reward", rng)
        id = choice.instruction.id
        assert not choice.replayed or iteration - drawn_at[id] >= 3
        drawn_at[id] = iteration
        replays += choice.replayed
        population.age()
    assert abs(replays / n - 0.1) < 4.5 * sqrt(0.09 / n)
    assert min(drawn_at[id] for id in ids) > 0  # evolution forgets none


def test_the_same_seed_draws_the_same() -> None:
    def draws() -> list[str]:
        population, _ = filled("reward", [1.0, -1.0, 3.0])
        rng = np.random.default_rng(9)
        return [population.sample("reward", rng).instruction.id for _ in range(30)]

    assert draws() == draws() and len(set(draws())) > 1


def design(number: int) -> str:
    return f"def reward(step):\n    return {number}.0 * step.news\n"


def tried(number: int, score: float = float("nan"), **more: Any) -> Tried:
    return Tried(
        f"c{number}", "reward", design(number), score, gain=more.pop("gain", score), **more
    )


def test_luck_does_not_lead() -> None:
    buffer = PerformanceBuffer()
    buffer.add(tried(1, 1.0))
    for _ in range(20):
        buffer.add(tried(2, 0.95))
    buffer.add(tried(3, -2.0))
    best, lucky, worst = buffer.best("reward", 3)
    centre = (1.0 + 0.95 - 2.0) / 3
    assert [best.candidate, lucky.candidate, worst.candidate] == ["c2", "c1", "c3"]
    assert (
        best.score == pytest.approx(centre + 20 / (20 + NOISE_RATIO) * (0.95 - centre))
        and best.seeds == 20
    )
    assert lucky.score == pytest.approx(centre + 1 / (1 + NOISE_RATIO) * (1.0 - centre))
    assert (
        buffer.best("network", 3) == []
        and PerformanceBuffer().sample(np.random.default_rng(0), 3) == []
    )


@given(
    scores=st.lists(st.one_of(st.none(), st.floats(-5, 5)), max_size=40),
    n=st.integers(1, 8),
    limit=st.integers(1, 30),
)
def test_history_has_the_best_and_the_worst_and_nothing_twice(
    scores: list[float | None], n: int, limit: int
) -> None:
    buffer = PerformanceBuffer(limit)
    for i, score in enumerate(scores):
        more: dict[str, Any] = {"reason": "NaN"} if score is None else {}
        buffer.add(tried(i % 17, float("nan") if score is None else score, **more))
    assert len(buffer) == min(limit, len(scores))
    ranked, history = buffer.best("reward", 100), buffer.history("reward", n)
    sources = [item.source for item in history]
    assert len(set(sources)) == len(sources) <= n and (not scores or sources)
    assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
    if ranked:
        assert sources[0] == ranked[0].source
    if len(ranked) >= n >= 2:
        assert ranked[-1].source in sources and all(item.scores for item in history)


def test_the_best_is_never_forgotten_and_the_oldest_goes_first() -> None:
    buffer = PerformanceBuffer(5)
    buffer.add(tried(0, 9.0))
    buffer.add(Tried("n", "network", MODULE_KINDS["network"].contract.examples[0], -3.0))
    for i in range(1, 30):
        buffer.add(tried(i, 0.0))
    assert (
        buffer.best("reward", 1)[0].candidate == "c0"
        and buffer.best("network", 1)[0].candidate == "n"
    )
    assert {one.candidate for one in buffer.sample(np.random.default_rng(0), 9)} == {
        "c0",
        "n",
        "c27",
        "c28",
        "c29",
    }
    assert buffer.modules == ("reward", "network")


def test_failures_tell_their_reason_where_there_is_room() -> None:
    buffer = PerformanceBuffer()
    buffer.add(tried(1, 0.5, instruction_text="Pay for patience."))
    buffer.add(tried(2, reason="training: loss is NaN", instruction_text="Be bold."))
    buffer.add(Tried("c1b", "reward", "# the same\n" + design(1), 0.7))
    scored, failed = buffer.history("reward", 6)
    assert (scored.scores["score_bps"], failed.scores) == (pytest.approx(0.6), {})
    assert buffer.history("reward", 1) == [scored]
    asked = build_prompt("reward", history=[scored, failed])[1]["content"]
    assert "score_bps +0.6" in asked and "Be bold. Failed: training: loss is NaN" in asked


def test_replay_draws_each_try_alike() -> None:
    buffer = PerformanceBuffer()
    for i in range(8):
        buffer.add(tried(i, float(i)))
    rng, n = np.random.default_rng(2), 2000
    seen = Counter(one.candidate for _ in range(n) for one in buffer.sample(rng, 2))
    assert len(seen) == 8 and all(
        abs(count / n - 1 / 4) < 4.5 * sqrt(3 / 16 / n) for count in seen.values()
    )


def accepts(lark: str, text: str) -> bool:
    matcher = LLMatcher(BYTES, lark)
    return matcher.consume_tokens(BYTES.tokenize_str(text)) and matcher.is_accepting()


def expansions(kind: str, name: str) -> list[str]:
    """Everything that a rule can become."""
    found = []
    for text in ADVICE[kind][name]:
        pieces = re.split(r"<(\w+)>", text)
        choices = [expansions(kind, piece) if i % 2 else [piece] for i, piece in enumerate(pieces)]
        found += ["".join(parts) for parts in product(*choices)]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_sentence_of_the_grammar_is_whole_and_has_nothing_to_hide(kind: str) -> None:
    topics = [expansions(kind, topic) for topic in ("first", "second", "third")]
    sentences = [sentence for topic in topics for sentence in topic]
    assert len(set(sentences)) == len(sentences)
    for sentence in sentences:
        assert re.fullmatch(r"[A-Z][^<>|]*[^ .]\.", sentence) and anonymous(sentence) == sentence
    used = {
        name
        for texts in ADVICE[kind].values()
        for text in texts
        for name in re.findall(r"<(\w+)>", text)
    }
    assert used == set(ADVICE[kind]) - {"start"}


@pytest.mark.parametrize("kind", KINDS)
def test_samples_parse_and_stay_as_they_are(kind: str) -> None:
    rng, lark = np.random.default_rng(6), instruction_grammar(kind)
    samples = [random_advice(kind, rng) for _ in range(60)]
    for text in samples:
        assert (
            accepts(lark, text)
            and len(text) <= ADVICE_BYTES[kind]
            and 2 <= text.count(". ") + 1 <= 3
        )
        assert anonymous(text) == text and cleaned(kind, text).removeprefix(OPENING).strip() == text
        assert len(text.split()) <= MOST_WORDS
    assert len(set(samples)) > 40 and not accepts(lark, samples[0] + " Sell everything.")


@pytest.mark.parametrize("code_type", MODULE_KINDS)
def test_what_is_advised_can_be_written(code_type: str) -> None:
    """Every number after "to" or "width" stands in some module of the grammar."""
    rng = np.random.default_rng(7)
    written = "\n".join(MODULE_KINDS[code_type].random_source(rng) for _ in range(1500))
    numbers = set(re.findall(r"\d+(?:\.\d+)?", written))
    values = [
        text
        for texts in ADVICE[code_type].values()
        for text in texts
        if re.fullmatch(r"\d+(?:\.\d+)?", text)
    ]
    assert values and set(values) <= numbers


def test_advice_on_the_market_moves_it() -> None:
    usual = MarketProfile()
    for name in PROFILE_RANGES:
        values = [float(value) for value in ADVICE["profiling"][name]]
        assert values and getattr(usual, name) not in values


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 2**32 - 1))
def test_edits_keep_the_task_and_the_room(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    text = default_macro() if kind == MACRO else default_micro(kind)
    for _ in range(6):
        edited = mutated(kind, text, rng=rng)
        text = crossed(kind, [edited, random_advice(kind, rng)], rng=rng)
        for words in (edited, text):
            assert words == anonymous(words) and words.startswith(OPENING) == (kind == MACRO)
            body = words.removeprefix(OPENING).strip()
            assert (
                0 < len(body.split()) <= MOST_WORDS
                and body.endswith(".")
                and "all, above all" not in body
            )


def test_mutations_drop_sharpen_and_swap() -> None:
    text = "Keep it small. TWAP is the measure."
    found = {mutated("network", text, rng=np.random.default_rng(i)) for i in range(60)}
    assert {
        "Keep it small.",
        "TWAP is the measure.",
        "Above all, keep it small. TWAP is the measure.",
        "Above all, TWAP is the measure. Keep it small.",
    } < found
    swapped = [one for one in found if SHARPER not in one and one.count(".") > 1]
    assert len(swapped) > 4 and all(("small" in one) + ("measure" in one) == 1 for one in swapped)
    assert crossed("network", [text], rng=np.random.default_rng(0)) == ""
    both = {
        crossed("network", [text, "Set epochs to 2."], rng=np.random.default_rng(i))
        for i in range(40)
    }
    assert (
        all("Set epochs to 2." in one and one != "Set epochs to 2." for one in both)
        and len(both) == 3
    )


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            "<think>Hm, x = 3</think>\n**Keep** the pairing with `TWAP`.\n",
            "Keep the pairing with TWAP.",
        ),
        ("- Remove the news first\n- Punish risk less", "Remove the news first. Punish risk less."),
        (
            "Set learning_rate = 0.002, as on 2024-03-01 for AAPL",
            f"Set learning_rate = 0.002, as on {HIDDEN} for {HIDDEN}.",
        ),
        ("Be patient when spreads are wide.<|im_end|>", "Be patient when spreads are wide."),
        ("```python\ndef reward(step):\n    return step.news\n```", ""),
        ("def reward(step):\n    return step.news", ""),
        ("import torch\nUse torch well always.", ""),
        ("weight = 2.0 for the pairing", ""),
        ("<think>I wonder what would be best", ""),
        ("", ""),
        ("  \n ", ""),
        ("42", ""),
        ("\x00\x07", ""),
    ],
)
def test_answers_are_made_clean(answer: str, text: str) -> None:
    assert cleaned("reward", answer) == text
    assert cleaned(MACRO, answer) == (f"{OPENING} {text}" if text else "")


def test_answers_that_contradict_themselves_or_run_on_are_cut() -> None:
    assert cleaned("network", "Set epochs to 2. Above all, set epochs to 4. Set history to 2.") == (
        "Set epochs to 2. Set history to 2."
    )
    short = "One two three four five six. "
    assert (
        cleaned("reward", short + "Word " * 58 + "end. And more follows here.")
        == short + "And more follows here."
    )
    assert cleaned("reward", "word " * 90) == "word " * 59 + "word."


class Scripted:
    """A designer whose answer a function chooses; remembers what it was asked."""

    name = "scripted"

    def __init__(self, answer: Callable[[Request], list[str]]) -> None:
        self._answer = answer
        self.asked: list[Request] = []

    def propose(self, request: Request, n: int) -> list[Proposal]:
        self.asked.append(request)
        assert n == 1
        return [Proposal(text) for text in self._answer(request)]

    def update(
        self, proposals: Sequence[Proposal], advantages: Sequence[float], **settings: Any
    ) -> dict[str, float]:
        raise Unsupported("a script does not learn")


def kit(seed: int = 0, *, modules: Sequence[str] = ("reward", "network")) -> HighLevelEnhancement:
    buffer = PerformanceBuffer()
    rng = np.random.default_rng(8)
    for i in range(6):
        for name in modules:
            buffer.add(
                Tried(
                    f"{name}{i}",
                    name,
                    MODULE_KINDS[name].random_source(rng),
                    i / 10,
                    gain=(i - 3) / 10,
                )
            )
    buffer.add(
        Tried(
            "bad",
            modules[0],
            MODULE_KINDS[modules[0]].random_source(rng),
            reason="training: the loss is NaN",
        )
    )
    return HighLevelEnhancement(InstructionPopulation(), buffer, seed=seed)


def test_choices_are_of_the_task_and_of_the_module() -> None:
    macro, micro = kit().choose("network", np.random.default_rng(0))
    assert (macro.instruction.kind, micro.instruction.kind) == (MACRO, "network")


def test_nothing_tried_teaches_nothing() -> None:
    designer = Scripted(lambda request: ["Be bold and patient."])
    assert (
        HighLevelEnhancement(InstructionPopulation(), PerformanceBuffer(), seed=0).refine(
            designer, 1, constrained=False
        )
        == []
        and not designer.asked
    )


def test_free_writers_reflect_on_what_worked_and_what_failed() -> None:
    designer = Scripted(
        lambda request: [f"Idea {request.seed}: pair with TWAP, as done on 2024-03-01. Pay risk."]
    )
    one, again, other = kit(seed=3), kit(seed=3), kit(seed=4)
    made = [one.refine(designer, iteration, constrained=False) for iteration in range(1, 25)]
    assert made == [
        again.refine(designer, iteration, constrained=False) for iteration in range(1, 25)
    ]
    assert made != [
        other.refine(designer, iteration, constrained=False) for iteration in range(1, 25)
    ]
    flat = [instruction for group in made for instruction in group]
    assert Counter(one.operator for one in flat).keys() == {"mutation", "crossover", "reflection"}
    assert {one.kind for one in flat} == {MACRO, "reward", "network"} and max(map(len, made)) == 3
    assert all(max(Counter(i.operator for i in group).values(), default=0) <= 1 for group in made)
    ids = {member.id for member in one.population.members()}
    assert {i.id for i in flat} < ids and all(set(i.parents) <= ids and i.parents for i in flat)
    assert all(i.id == key_of(i.kind, i.text)[:12] and i.text == anonymous(i.text) for i in flat)
    assert all(len(i.parents) == 2 for i in flat if i.operator == "crossover")
    assert [i.iteration for i in made[4]] == [5] * len(made[4])
    questions = [str(request.prompt) for request in designer.asked[:24]]
    assert len({request.seed for request in designer.asked[:24]}) == 24
    assert any("failed, training: the loss is NaN" in text for text in questions)
    for text in questions:
        assert "+0.20: " in text and "-0.30: " in text and "{" not in text.split("#")[0]
    assert all(request.grammar is None for request in designer.asked)


@pytest.mark.parametrize("answers", [[], [""], ["```python\nx = 1\n```"], None])
def test_a_designer_that_says_nothing_of_use_stops_nothing(answers: list[str] | None) -> None:
    def answer(request: Request) -> list[str]:
        if answers is None:
            raise LlmError("out of reach")
        return answers

    enhancement, designer = kit(), Scripted(answer)
    made = [
        i
        for iteration in range(12)
        for i in enhancement.refine(designer, iteration, constrained=False)
    ]
    assert len(designer.asked) == 12 and {i.operator for i in made} == {"mutation", "crossover"}


@pytest.fixture
def tiny(tmp_path: Path) -> Any:
    threads = torch.get_num_threads()
    yield build_model(tmp_path / "tiny")
    torch.set_num_threads(threads)


def _open(folder: Path) -> LocalDesigner:
    return LocalDesigner(resolve(folder), threads=1, dtype="float32", device="cpu")


def test_a_small_model_reflects_under_the_grammar(tiny: Path) -> None:
    config = json.loads((tiny / "config.json").read_text())
    (tiny / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 4096}))
    designer: Any = _open(tiny)
    made = kit().refine(designer, 1, constrained=True), kit().refine(designer, 1, constrained=True)
    (reflection,) = [i for i in made[0] if i.operator == "reflection"]
    assert made[0] == made[1]
    assert accepts(
        instruction_grammar(reflection.kind), reflection.text.removeprefix(OPENING).strip()
    )


def test_a_model_whose_memory_is_too_short_does_not_reflect(tiny: Path) -> None:
    designer: Any = _open(tiny)
    made = [
        i for iteration in range(4) for i in kit().refine(designer, iteration, constrained=True)
    ]
    assert made and "reflection" not in {i.operator for i in made}


@pytest.mark.skipif(
    not (REAL_CACHE / "models" / "smollm2").is_dir(),
    reason="smollm2 is not here; run: se-rl llm pull smollm2",
)
def test_the_real_model_chooses_among_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SE_RL_CACHE", str(REAL_CACHE))
    designer: Any = LocalDesigner("smollm2")
    enhancement = kit(modules=("reward", "network", "imagination"))
    made = [
        i
        for iteration in range(2)
        for i in enhancement.refine(designer, iteration, constrained=True)
    ]
    reflections = [i for i in made if i.operator == "reflection"]
    assert reflections
    for one in reflections:
        assert accepts(instruction_grammar(one.kind), one.text.removeprefix(OPENING).strip())
