"""The low level of enhancement: the designer's own weights, moved by the scores of what it wrote.

REINFORCE with leave-one-out groups: the designs of one prompt are each other's baseline, and what is rewarded is the gain
over the parent that the prompt showed, so that the model learns which edits pay. Log-probs are exact, under the grammar
and temperature of the draw. Left out: importance weights and several passes over one batch (a step is small, and the next
batch comes from the moved weights), and a critic (the group is one).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from se_rl.config import ConfigError
from se_rl.llm.backends import Designer, Proposal

if TYPE_CHECKING:
    from torch import nn

    from se_rl.llm.engine import LoraSettings
    from se_rl.llm.local import LocalDesigner, Surrogate

Floats = npt.NDArray[np.float64]
Behaviour = tuple[float, ...]

NORMS = "layer_norm"
"""The target that stands for every norm's gain: trained as whole vectors, for which LoRA is not defined."""
_ATTENTION = "q_proj k_proj v_proj o_proj qkv_proj out_proj c_attn c_proj query_key_value dense"
TARGETS = (*_ATTENTION.split(), "gate_proj", "up_proj", "down_proj", "c_fc", "fc1", "fc2", NORMS)
"""Names that `target_modules` may hold; a model has some of them."""
MIN_DISTINCT = 0.3
"""Share of different behaviours below which a model that learns on would only narrow further."""
RECENT = 64


@dataclass(frozen=True)
class LoRAConfig:
    """How the designer learns: shape of the adapter, size of a step, pull to the untouched model, and what is rewarded.

    A valid design scores from -1 to 1, plus up to `diversity`, less `duplicate_penalty` where it repeats an earlier one.
    `estimator` "ste" follows a learned predictor of the score instead (see `score_predictor`).
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
        least = {
            "rank": 1,
            "alpha": 1,
            "learning_rate": 1e-8,
            "kl_coef": 0,
            "diversity": 0,
            "duplicate_penalty": 0,
        }
        for name, low in least.items():
            if not low <= getattr(self, name) < np.inf:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}; give a number of at least {low}"
                )
        worst = -1.0 - self.duplicate_penalty
        if not -np.inf < self.invalid_score < worst:
            raise ConfigError(
                f"invalid_score is {self.invalid_score}; a valid design may get {worst}: give less"
            )

    @property
    def settings(self) -> LoraSettings:
        """The adapter's shape as the engine reads it."""
        from se_rl.llm.engine import LoraSettings

        targets = tuple(name for name in self.target_modules if name != NORMS)
        return LoraSettings(self.rank, self.alpha, targets, NORMS in self.target_modules)


@dataclass(frozen=True)
class DesignOutcome:
    """What became of one proposal. `gain` is its score minus that of the parent shown in the prompt, None where it is
    invalid or gave no score; `repeated` says that the archive had it already, `prompt` which proposals are siblings (by
    default: those with the same messages and grammar). `instructions` (ids) and `tried` are for the high level.
    """

    proposal: Proposal
    gain: float | None
    behaviour: Behaviour = ()
    repeated: bool = False
    prompt: str = ""
    code_type: str = ""
    instructions: tuple[str, ...] = ()
    tried: Any = field(default=None, repr=False)

    @property
    def group(self) -> object:
        """Equal for the proposals of one request, redraws with other seeds and temperatures included."""
        asked = self.proposal.request
        return self.prompt or (asked and (str(asked.messages), asked.grammar))

    @property
    def gained(self) -> float:
        """The gain; NaN where there is none."""
        return self.gain if self.gain is not None and np.isfinite(self.gain) else np.nan

    @property
    def form(self) -> object:
        """Equal for designs that do the same; by their text where nobody looked what they do."""
        return tuple(round(x, 3) for x in self.behaviour) or self.proposal.text


@dataclass(frozen=True)
class LearningStep:
    """What a step did: the designer to go on with, whether its weights moved, why not or how else ("": as asked)."""

    designer: Designer
    moved: bool
    reason: str
    stats: dict[str, float]


def design_scores(
    outcomes: Sequence[DesignOutcome],
    config: LoRAConfig,
    *,
    recent: Mapping[str, Iterable[Behaviour]] | None = None,
) -> Floats:
    """The score of every outcome, which advantages are made of.

    Half of it is the gain's rank among the valid siblings, for with few samples and heavy tails one lucky score must not
    lead the step; half is tanh(gain / median |gain| of the batch), so that near-ties count little and clear gains more.
    """
    gains = np.array([outcome.gained for outcome in outcomes])
    sizes = np.abs(gains[np.isfinite(gains)])
    scale = max(float(np.median(sizes) or sizes.max()), 1e-9) if sizes.size else 1.0
    scores = np.full(len(outcomes), config.invalid_score)
    for members in _groups(outcomes):
        valid = members[np.isfinite(gains[members])]
        siblings = [outcomes[i] for i in valid]
        size, repeats = (
            np.tanh(gains[valid] / scale),
            np.array([o.repeated for o in siblings], float),
        )
        bonus = config.diversity * _novelty(siblings, recent or {})
        scores[valid] = (
            (_ranks(gains[valid]) + size) / 2 + bonus - config.duplicate_penalty * repeats
        )
    return scores


def advantages(outcomes: Sequence[DesignOutcome], scores: Floats) -> Floats:
    """Each score minus the mean of its siblings', over the batch of size 1; NaN where a group has nothing to tell."""
    found = np.full(len(scores), np.nan)
    for members in _groups(outcomes):
        if len(members) > 1 and np.ptp(scores[members]) > 1e-9:
            found[members] = (
                (scores[members] - scores[members].mean()) * len(members) / (len(members) - 1)
            )
    live = np.isfinite(found)
    return found / np.sqrt(np.mean(found[live] ** 2)) if live.any() else found


class LowLevelEnhancement:
    """LoRA on a causal model, trained by the scores of what it wrote.

    It remembers the behaviour of recent designs, for novelty, and scored designs, for the predictor of "ste": a run that
    is gone through again must therefore call `learn` at every step again, with `stored` where the step is known.
    """

    def __init__(self, config: LoRAConfig | None = None) -> None:
        self.config = config or LoRAConfig()
        self._model: Any = None
        self._recent: dict[str, deque[Behaviour]] = defaultdict(lambda: deque(maxlen=RECENT))
        self._pairs: deque[tuple[tuple[int, ...], float]] = deque(maxlen=512)

    def apply_lora(self, model: Any, *, seed: int = 0) -> Any:
        """Any causal model of transformers with LoRA and trainable norms, its own weights frozen; neutral at first."""
        import torch
        from peft import get_peft_model

        from se_rl.llm.engine import peft_config

        settings = self.config.settings
        present = {name.rsplit(".", 1)[-1] for name, _ in model.named_modules()}
        absent = [name for name in settings.targets if name not in present]
        if absent:
            has = ", ".join(name for name in TARGETS if name in {*present, NORMS})
            raise ConfigError(
                f"{type(model).__name__} has no {', '.join(absent)}; use target_modules out of {has}"
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._model = get_peft_model(model, peft_config(model, settings))
        return self._model

    def get_lora_parameters(self) -> list[nn.Parameter]:
        """What is trained in the model that `apply_lora` was given last."""
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
    ) -> LearningStep:
        """One step on the adapter, in place; a designer without one gets a fresh one, drawn from `seed`.

        Refused, with the reason, where there is nothing to learn from or the model has begun to repeat itself. `stored`
        is the adapter that this very step made before: it is loaded instead.
        """
        usable = [o for o in outcomes if o.proposal.tokens and o.proposal.log_prob is not None]
        scores = design_scores(usable, self.config, recent=self._recent)
        each = advantages(usable, scores)
        live = np.isfinite(each)
        stats = _summary(usable, live, adapter=getattr(designer, "adapter", None))
        self._remember(usable, scores)
        if stored is not None:
            return LearningStep(cast(Designer, load_adapter(designer, stored)), True, "", stats)
        if objection := _objection(designer, stats):
            return LearningStep(designer, False, objection, stats)
        learner = cast("LocalDesigner", designer)
        if not learner.adapter:
            learner = learner.new_adapter("lle", settings=self.config.settings, seed=seed)
        surrogate, reason = self._surrogate(learner, stats)
        measured = learner.update(
            [outcome.proposal for outcome, is_live in zip(usable, live, strict=True) if is_live],
            each[live].tolist(),
            learning_rate=self.config.learning_rate,
            kl_coef=self.config.kl_coef,
            surrogate=surrogate,
        )
        return LearningStep(cast(Designer, learner), True, reason, {**stats, **measured})

    def _remember(self, outcomes: Sequence[DesignOutcome], scores: Floats) -> None:
        for outcome, score in zip(outcomes, scores, strict=True):
            self._pairs.append((outcome.proposal.tokens or (), float(score)))
            if outcome.behaviour and np.isfinite(outcome.gained):
                self._recent[outcome.code_type].append(outcome.behaviour)

    def _surrogate(
        self, learner: LocalDesigner, stats: dict[str, float]
    ) -> tuple[Surrogate | None, str]:
        """What "ste" maximises, or None and the reason why REINFORCE has to do."""
        if self.config.estimator == "reinforce":
            return None, ""
        from se_rl.llm.score_predictor import fit_predictor, ste_gradient

        predictor = fit_predictor(learner.embeddings, list(self._pairs))
        stats |= {"ste": float(predictor.usable), "ste_correlation": predictor.correlation}
        if not predictor.usable:
            return None, f"{predictor.reason}; REINFORCE was used"
        return partial(ste_gradient, predictor), ""


def adapter_bytes(designer: LocalDesigner) -> bytes:
    """The designer's adapter, AdamW's moments included, as one file for the archive: same state, same bytes."""
    return designer.adapter_bytes()


def load_adapter(designer: Any, content: bytes) -> LocalDesigner:
    """The designer with an adapter out of `adapter_bytes`, bit for bit; one made for another model is refused."""
    return designer.with_adapter_bytes(content)


def _groups(outcomes: Sequence[DesignOutcome]) -> list[npt.NDArray[np.int64]]:
    found: dict[object, list[int]] = {}
    for i, outcome in enumerate(outcomes):
        found.setdefault(outcome.group, []).append(i)
    return [np.array(members) for members in found.values()]


def _ranks(gains: Floats) -> Floats:
    """Ranks spread evenly from -1 to 1, ties at their mean; 0 for one alone."""
    from scipy.stats import rankdata

    return (2 * rankdata(gains) - 1 - len(gains)) / max(1, len(gains) - 1)


def _novelty(
    siblings: Sequence[DesignOutcome], recent: Mapping[str, Iterable[Behaviour]]
) -> Floats:
    """Mean distance of each behaviour to its siblings' and to recent ones, from 0 to 1; a typical distance counts 0.5."""
    found = np.zeros(len(siblings))
    if not (known := [i for i, sibling in enumerate(siblings) if sibling.behaviour]):
        return found
    points = np.array(
        [*(siblings[i].behaviour for i in known), *recent.get(siblings[0].code_type, ())]
    )
    apart = np.sqrt(np.mean((points[: len(known), None] - points) ** 2, axis=2))
    typical = np.median(apart[apart > 0]) if (apart > 0).any() else 1.0
    found[known] = (apart / (apart + typical)).sum(1) / max(1, len(points) - 1)
    return found


def _summary(
    outcomes: Sequence[DesignOutcome], live: npt.NDArray[np.bool_], *, adapter: str | None
) -> dict[str, float]:
    """Counts and shares of a batch; `distinct` among siblings, `off_policy` by other weights than those that learn."""
    groups, gains = _groups(outcomes), [o.gained for o in outcomes if np.isfinite(o.gained)]
    skipped = sum(not live[members].any() for members in groups)
    stats = {"groups": float(len(groups)), "skipped": float(skipped), "designs": float(live.sum())}
    if outcomes:
        stats["valid"] = len(gains) / len(outcomes)
        stats["off_policy"] = float(
            np.mean([outcome.proposal.adapter != adapter for outcome in outcomes])
        )
        stats["distinct"] = len({(o.group, o.form) for o in outcomes}) / len(outcomes)
    return {**stats, "mean_gain": float(np.mean(gains))} if gains else stats


def _objection(designer: Designer, stats: dict[str, float]) -> str:
    """Why there must be no step; "" where nothing speaks against it."""
    if not hasattr(designer, "new_adapter"):
        return f"the weights of {designer.name} are out of reach"
    if not stats["designs"]:
        return f"none of {stats['groups']:.0f} groups has designs that differ in score"
    if stats["distinct"] < MIN_DISTINCT:
        return f"only {stats['distinct']:.0%} of siblings differ in what they do; below {MIN_DISTINCT:.0%} no step"
    return ""
