"""A whole run behind one call: `SERLFramework(SERLConfig(...)).run_training()`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from se_rl.config import ConfigError, to_dict
from se_rl.data.given import GivenData, as_data_name
from se_rl.records.results import RunResults
from se_rl.records.settings import RunConfig, preset

UPDATES_PER_WORK = 8.0
"""PPO updates of the default design in one work unit, about: how `max_inner_iterations` becomes a
budget.
"""
FEWEST = 64
"""Simulated orders, however short the trainings."""


@dataclass(frozen=True, kw_only=True)
class SERLConfig:
    """The settings that matter most; everything else is as in the preset `quick`.

    `max_inner_iterations` is the number of PPO updates of a search training (the last rung has
    three times as many); where that is less than the preset's, as many fewer simulated
    orders are trained and scored on. `llm_model_name` is an embedded model, a folder, or URL#MODEL;
    None is the embedded default. `dataset` is a file, a set's name, or bars in memory (a pandas
    frame, MarketData), which are kept in the data home. `seal` repeats the sealed draws of another run; None draws a
    secret.
    """

    dataset: GivenData = "nasdaq100"
    llm_model_name: str | None = None
    max_outer_iterations: int = 50
    max_inner_iterations: int = 1000
    convergence_epsilon: float = 0.1
    learning_rate: float = 3e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_epsilon: float = 0.2
    static_env_weight: float = 0.5
    dynamic_env_weight: float = 0.5
    lora_rank: int = 16
    lora_alpha: int = 32
    seed: int = 0
    seal: str | None = None

    def __post_init__(self) -> None:
        static, dynamic = self.static_env_weight, self.dynamic_env_weight
        if not (0.0 <= static <= 1.0 and abs(static + dynamic - 1.0) <= 1e-9):
            weights = f"{static} and {dynamic}"
            raise ConfigError(
                f"static_env_weight and dynamic_env_weight are {weights}; "
                "use two shares that sum to 1"
            )

    @property
    def run(self) -> RunConfig:
        """The same as settings of a run."""
        quick, work = preset("quick"), self.max_inner_iterations / UPDATES_PER_WORK
        share = min(1.0, work / quick.work)
        screen, search, last = (max(FEWEST, round(share * orders)) for orders in quick.episodes)
        return replace(
            quick,
            data=as_data_name(self.dataset),
            llm=self.llm_model_name or quick.llm,
            seed=self.seed,
            seal=self.seal,
            iterations=self.max_outer_iterations,
            work=work,
            bank=max(FEWEST, round(share * quick.bank)),
            episodes=(screen, search, last),
            epsilon=self.convergence_epsilon,
            learning_rate=self.learning_rate,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
            clip=self.clip_epsilon,
            initial_alpha=self.static_env_weight,
            lora_rank=self.lora_rank,
            lora_alpha=self.lora_alpha,
        )


class SERLFramework:
    """Both loops behind one call; the run's folder is `out`, by default one in `out/` named after
    the settings.
    """

    def __init__(
        self, config: SERLConfig | RunConfig | None = None, *, out: str | Path | None = None
    ) -> None:
        given = config or SERLConfig()
        self.config = given.run if isinstance(given, SERLConfig) else given
        self.out = Path(out) if out else default_folder(self.config)

    def run_training(self, *, quiet: bool = False, **options: Any) -> RunResults:
        """Search, or go on with an interrupted search, and return the results.

        Progress is shown on stderr unless `quiet`, or unless `tell` takes the events. `options` are
        those of `core.run.Run`. The parts of results.json are attributes, and keys too:
        `results["final_metrics"]["PA"]`.
        """
        from se_rl.core.run import run_search
        from se_rl.report.live import LiveRun

        config = self.config
        title = f"run: {config.data}, {config.designer}, seed {config.seed}, in {self.out}"
        with LiveRun(quiet=quiet or "tell" in options, title=title) as live:
            shown = {"tell": live.event, "say": live.stage, "left": live.estimate}
            return run_search(config, self.out, **(shown | options))


def default_folder(config: RunConfig) -> Path:
    """A folder of its own for every set of settings, so that other settings never meet an older
    run.

    A file counts by what it holds, so that another path to it leads to the same folder.
    """
    from se_rl.data.file_content import bare_name, file_content
    from se_rl.records.entries import key_of, sha256
    from se_rl.scoring.run_groups import arm_of

    settings = to_dict(config)
    arm = arm_of(settings).replace(" ", "-")
    path = Path(config.data).expanduser()
    if path.is_file():
        settings["data"] = sha256(file_content(path))
    return Path("out") / f"{bare_name(path)}-{arm}-{config.seed}-{key_of(settings)[:6]}"
