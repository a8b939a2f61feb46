"""From prompt to trained agent: modules that the real default model wrote are validated, trained behind the lock, and act."""

from __future__ import annotations

import numpy as np
import pytest

from se_rl.data.cache import cache_folder
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.static_world import StaticWorld
from se_rl.llm.generator import DesignGenerator, open_designer
from se_rl.modules.kinds import KINDS
from se_rl.rl.sandboxed_training import SandboxedTrainer
from se_rl.rl.trainer import TrainConfig
from se_rl.rl.training_worlds import TrainingWorldsConfig
from se_rl.scoring.execution import execute

MODEL = cache_folder() / "models" / "smollm2"  # asked for before tests get a private cache


@pytest.mark.skipif(
    not MODEL.exists(), reason="the default model is not here; run: se-rl llm pull smollm2"
)
def test_every_module_goes_from_prompt_to_agent() -> None:
    generator = DesignGenerator(open_designer(str(MODEL)))
    design = {}
    for code_type in KINDS:
        attempt = generator.generate(code_type, 1, seed=7)[0]
        assert attempt.is_valid and attempt.source, attempt.faults
        design[code_type] = attempt.source
    data = synthetic_market(SyntheticConfig(symbols=6, sessions=3))
    worlds = TrainingWorldsConfig(horizons=(20,), dynamic_horizons=(8,), bank=32, agents=2)
    with SandboxedTrainer(data=data) as sandbox:
        trained, plain = (
            sandbox.train(
                sources,
                training_worlds=worlds,
                config=TrainConfig(budget=0.05, samples=512),
                seed=0,
            )
            for sources in (design, {})
        )
        assert trained.ok and plain.ok, (trained.reason, plain.reason)
        assert {k: v.shape for k, v in trained.weights.items()} != {
            k: v.shape for k, v in plain.weights.items()
        }
        world = StaticWorld(data, horizon=20)
        actor = sandbox.actor(trained, world="static", horizon=20, rows=64)
        gain = execute(world, actor, world.draw(np.random.default_rng(0), 64)).gain
        actor.close()
    assert np.isfinite(gain).all() and gain.std() > 0
