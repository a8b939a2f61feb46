"""The bandit's posterior is that of a linear regression, its choices follow it, and old trials fade."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.core.bandit import AdditiveBandit

FACTORS = {
    "module": ("reward", "network"),
    "operator": ("draft", "tweak", "rewrite"),
    "model": ("untouched", "adapted"),
}
PLACES = [(name, level) for name, levels in FACTORS.items() for level in levels]
CHOICES = AdditiveBandit(FACTORS).choices()
Trials = list[tuple[int, float]]
TRIALS = st.lists(st.tuples(st.integers(0, len(CHOICES) - 1), st.floats(-5, 5)), max_size=30)


def told(trials: Trials, **settings: float) -> AdditiveBandit:
    bandit = AdditiveBandit(FACTORS, **settings)
    for choice, reward in trials:
        bandit.observe(CHOICES[choice], reward)
    return bandit


@settings(max_examples=30, deadline=None)
@given(trials=TRIALS, prior=st.floats(0.1, 3), noise=st.floats(0.2, 3), decay=st.floats(0.5, 1.0))
def test_the_posterior_is_that_of_weighted_regression(
    trials: Trials, prior: float, noise: float, decay: float
) -> None:
    mean, covariance = told(trials, prior_sd=prior, noise_sd=noise, decay=decay).posterior()
    rows = np.array(
        [
            [1.0, *(float(CHOICES[choice][name] == level) for name, level in PLACES)]
            for choice, _ in trials
        ]
    )
    rows, rewards = (
        rows.reshape(len(trials), len(PLACES) + 1),
        np.array([reward for _, reward in trials]),
    )
    noises = noise**2 / decay ** np.arange(len(trials))[::-1]
    # the other closed form, in the space of trials: prior covariance minus what the trials explain
    between = prior**2 * rows @ rows.T + np.diag(noises)
    gain = np.linalg.solve(between, prior**2 * rows).T
    assert mean == pytest.approx(gain @ rewards, abs=1e-9)
    assert covariance == pytest.approx(prior**2 * (np.eye(len(PLACES) + 1) - gain @ rows), abs=1e-9)


def test_old_trials_fade() -> None:
    choice = CHOICES[0]
    fading, keeping = (
        told([(0, 1.0)] * 40 + [(0, -1.0)] * 40, decay=decay) for decay in (0.8, 1.0)
    )
    assert fading.expected(choice) < -0.6 and abs(keeping.expected(choice)) < 1e-9
    sure, unsure = (np.trace(one.posterior()[1]) for one in (keeping, fading))
    assert sure < unsure  # what fades is worth fewer trials


def test_what_was_learnt_on_one_choice_speaks_for_its_factors() -> None:
    bandit = told([(0, 2.0)] * 10)
    seen, shares_two, shares_none = (
        {"module": m, "operator": o, "model": v}
        for m, o, v in (
            ("reward", "draft", "untouched"),
            ("reward", "draft", "adapted"),
            ("network", "tweak", "adapted"),
        )
    )
    assert bandit.expected(seen) > bandit.expected(shares_two) > bandit.expected(shares_none) > 0.0
    assert AdditiveBandit(FACTORS).expected(seen) == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_thompson_finds_the_better_choice(seed: int) -> None:
    effects = {"reward": 0.6, "tweak": 0.5, "adapted": -0.4}
    rng, bandit, late = np.random.default_rng(seed), AdditiveBandit(FACTORS), []
    for trial in range(300):
        choice = bandit.choose(rng)
        bandit.observe(
            choice,
            sum(effects.get(level, 0.0) for level in choice.values()) + 0.5 * rng.standard_normal(),
        )
        late += [choice] if trial >= 200 else []
    best = {"module": "reward", "operator": "tweak", "model": "untouched"}
    right = {
        name: np.mean([choice[name] == level for choice in late]) for name, level in best.items()
    }
    assert min(right.values()) > 0.6, right
    assert max(CHOICES, key=bandit.expected) == best


def test_only_allowed_choices_are_chosen_and_chance_is_the_callers() -> None:
    bandit, allowed = told([(0, 5.0)] * 5), [CHOICES[3], CHOICES[7]]
    rng = np.random.default_rng(0)
    chosen = [bandit.choose(rng, allowed=allowed) for _ in range(40)]
    assert {tuple(choice.values()) for choice in chosen} == {
        tuple(choice.values()) for choice in allowed
    }
    again = np.random.default_rng(0)
    assert [bandit.choose(again, allowed=allowed) for _ in range(40)] == chosen
    assert bandit.choose(rng, allowed=[CHOICES[5]]) == CHOICES[5]
    assert len(CHOICES) == 12 == len({tuple(choice.values()) for choice in CHOICES})
