"""Low level of enhancement: the designer's own weights, moved by the scores of what it wrote.

REINFORCE with leave-one-out groups: the designs of one prompt are each other's baseline (see
`design_outcomes`). Log-probs are exact, under the grammar and temperature of the draw. Left out:
importance weights and several passes over one batch (a step is small, and the next batch comes from
the moved weights), and a critic (the group is one).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from se_rl.config import ConfigError
from se_rl.llm.backends import Designer, TrainableDesigner, as_trainable
from se_rl.llm.design_outcomes import (
    Behaviour,
    DesignOutcome,
    Floats,
    advantages,
    batch_summary,
    design_scores,
)
from se_rl.records.enhancement import WeightUpdate

if TYPE_CHECKING:
    from torch import nn

    from se_rl.llm.adapters import LoraSettings
    from se_rl.llm.likelihood import Surrogate
    from se_rl.llm.score_predictor import TokenScores

__all__ = [
    "DesignOutcome",
    "LoRAConfig",
    "LowLevelEnhancement",
    "adapter_bytes",
    "advantages",
    "design_scores",
    "load_adapter",
]

NORMS = "layer_norm"
"""The target that stands for every norm's gain: trained as whole vectors, without LoRA."""
_ATTENTION = "q_proj k_proj v_proj o_proj qkv_proj out_proj c_attn c_proj query_key_value dense"
TARGETS = (*_ATTENTION.split(), "gate_proj", "up_proj", "down_proj", "c_fc", "fc1", "fc2", NORMS)
"""Names that `target_modules` may hold; a model has some of them."""
MIN_DISTINCT = 0.3
"""Share of different behaviours below which learning on would only narrow the model further."""
RECENT = 64
"""Behaviours of each module that novelty is measured against."""
PAIRS = 512
"""Scored designs that the predictor of "ste" is fitted on."""
Prior = Callable[[], Sequence[tuple[str, float]]]
"""Gives texts and their worth, from -1 to 1, when they are needed."""
_LEAST = {
    "rank": 1,
    "alpha": 1,
    "learning_rate": 1e-8,
    "kl_coef": 0,
    "diversity": 0,
    "duplicate_penalty": 0,
}


@dataclass(frozen=True)
class LoRAConfig:
    """How the designer learns: the adapter's shape, the size of a step, and what is rewarded.

    `kl_coef` is the pull towards the untouched model. A valid design scores from -1 to 1, plus up
    to `diversity`, less `duplicate_penalty` if it repeats an earlier one. `estimator` "ste" follows
    a learned predictor of the score instead (see `score_predictor`).
    """

    rank: int = 16
    alpha: int = 32
    target_modules: Sequence[str] = ("q_proj", "v_proj", NORMS)
    learning_rate: float = 3e-4
    kl_coef: float = 0.05
    diversity: float = 0.25
    duplicate_penalty: float = 0.5
    invalid_score: float = -2.0
    estimator: Literal["reinforce", "ste"] = "reinforce"

    def __post_init__(self) -> None:
        if not {NORMS} < {NORMS, *self.target_modules} <= set(TARGETS):
            raise ConfigError(
                f"target_modules is {list(self.target_modules)}; use some of {', '.join(TARGETS)}"
            )
        if self.estimator not in ("reinforce", "ste"):
            raise ConfigError(f"estimator is {self.estimator!r}; use reinforce or ste")
        for name, low in _LEAST.items():
            value = getattr(self, name)
            if not low <= value < np.inf:
                raise ConfigError(f"{name} is {value}; give a number of at least {low}")
        worst = -1.0 - self.duplicate_penalty
        if not -np.inf < self.invalid_score < worst:
            raise ConfigError(
                f"invalid_score is {self.invalid_score}; a valid design may get {worst}: give less"
            )

    @property
    def settings(self) -> LoraSettings:
        """The adapter's shape as the engine reads it."""
        from se_rl.llm.adapters import LoraSettings

        targets = tuple(name for name in self.target_modules if name != NORMS)
        return LoraSettings(self.rank, self.alpha, targets, NORMS in self.target_modules)


class LowLevelEnhancement:
    """LoRA on a causal model, trained by the scores of what it wrote.

    `prior` gives texts and their worth, from -1 to 1, that the predictor of "ste" starts from.

    It remembers the behaviour of recent designs, for novelty, and scored designs, for that
    predictor. A resumed run must therefore call `learn` at every step again, with `stored` if the
    step is known.
    """

    def __init__(self, config: LoRAConfig | None = None, *, prior: Prior = lambda: ()) -> None:
        self.config = config or LoRAConfig()
        self._prior = prior
        self._prior_pairs: TokenScores | None = None
        self._model: Any = None
        self._recent: dict[str, deque[Behaviour]] = defaultdict(lambda: deque(maxlen=RECENT))
        self._pairs: deque[tuple[tuple[int, ...], float]] = deque(maxlen=PAIRS)

    def apply_lora(self, model: Any, *, seed: int = 0) -> Any:
        """Any causal model of transformers with LoRA and trainable norms; neutral at first.

        The model's own weights are frozen.
        """
        from peft import get_peft_model

        from se_rl.llm.adapters import fresh_weights, peft_config

        settings = self.config.settings
        present = {name.rsplit(".", 1)[-1] for name, _ in model.named_modules()}
        absent = [name for name in settings.targets if name not in present]
        if absent:
            has = ", ".join(name for name in TARGETS if name in {*present, NORMS})
            raise ConfigError(
                f"{type(model).__name__} has no {', '.join(absent)};"
                f" use target_modules out of {has}"
            )
        with fresh_weights(seed):
            self._model = get_peft_model(model, peft_config(model, settings))
        return self._model

    def get_lora_parameters(self) -> list[nn.Parameter]:
        """What trains in the model that `apply_lora` was given last."""
        if self._model is None:
            raise ConfigError("no model has LoRA yet; call apply_lora(model) first")
        return [weight for weight in self._model.parameters() if weight.requires_grad]

    def learn(
        self,
        designer: Designer,
        outcomes: Sequence[DesignOutcome],
        *,
        seed: int,
        stored: bytes | None = None,
    ) -> tuple[Designer, WeightUpdate]:
        """One step on the adapter, in place: the designer to go on with, and what the step did.

        A designer without an adapter gets a fresh one, drawn from `seed`. The step is refused, with
        the reason, if there is nothing to learn from or the model has begun to repeat itself.
        `stored` is the adapter that this very step made before: it is loaded instead.
        """
        usable = [o for o in outcomes if o.proposal.tokens and o.proposal.log_prob is not None]
        scores = design_scores(usable, self.config, recent=self._recent)
        each = advantages(usable, scores)
        live = np.isfinite(each)
        learner = as_trainable(designer)
        stats = batch_summary(usable, live, adapter=learner.adapter if learner else None)
        self._remember(usable, scores)
        if learner is None:
            reason = f"the weights of {designer.name} are out of reach"
            return designer, WeightUpdate(False, reason, stats)
        if stored is not None:
            return learner.with_adapter_bytes(stored), WeightUpdate(True, "", stats)
        if objection := _objection(stats):
            return designer, WeightUpdate(False, objection, stats)
        if not learner.adapter:
            learner = learner.new_adapter("lle", settings=self.config.settings, seed=seed)
        surrogate, reason = self._surrogate(learner, stats)
        measured = learner.update(
            [usable[i].proposal for i in np.flatnonzero(live)],
            each[live].tolist(),
            learning_rate=self.config.learning_rate,
            kl_coef=self.config.kl_coef,
            surrogate=surrogate,
        )
        return learner, WeightUpdate(True, reason, {**stats, **measured})

    def _remember(self, outcomes: Sequence[DesignOutcome], scores: Floats) -> None:
        for outcome, score in zip(outcomes, scores, strict=True):
            self._pairs.append((outcome.proposal.tokens or (), float(score)))
            if outcome.behaviour and np.isfinite(outcome.gained):
                self._recent[outcome.code_type].append(outcome.behaviour)

    def _surrogate(
        self, learner: TrainableDesigner, stats: dict[str, float]
    ) -> tuple[Surrogate | None, str]:
        """What "ste" maximises, or None and the reason why REINFORCE is used."""
        if self.config.estimator == "reinforce":
            return None, ""
        from se_rl.llm.score_predictor import fit_predictor, ste_gradient

        if self._prior_pairs is None:
            self._prior_pairs = [(learner.tokens_of(text), worth) for text, worth in self._prior()]
        predictor = fit_predictor(learner.embeddings, list(self._pairs), prior=self._prior_pairs)
        stats["ste_prior"] = float(len(self._prior_pairs))
        stats["ste"] = float(predictor.usable)
        stats["ste_correlation"] = predictor.correlation
        if not predictor.usable:
            return None, f"{predictor.reason}; REINFORCE was used"
        return partial(ste_gradient, predictor), ""


def adapter_bytes(designer: TrainableDesigner) -> bytes:
    """The designer's adapter, AdamW's moments included, as one file: same state, same bytes."""
    return designer.adapter_bytes()


def load_adapter(designer: TrainableDesigner, content: bytes) -> TrainableDesigner:
    """The designer with an adapter from `adapter_bytes`; one made for another model is refused."""
    return designer.with_adapter_bytes(content)


def _objection(stats: dict[str, float]) -> str:
    """Why there must be no step; "" if nothing speaks against it."""
    if not stats["designs"]:
        return f"none of {stats['groups']:.0f} groups has designs that differ in score"
    if stats["distinct"] < MIN_DISTINCT:
        return (
            f"only {stats['distinct']:.0%} of siblings differ in what they do;"
            f" below {MIN_DISTINCT:.0%} no step"
        )
    return ""
