"""SE-RL: a self-evolving reinforcement-learning researcher for financial order execution.

Importing the package is cheap; each public name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "MarketData": "se_rl.data.market_data",
    "DataError": "se_rl.data.market_data",
    "FinancialDataPipeline": "se_rl.data.pipeline",
    "SyntheticConfig": "se_rl.data.synthetic",
    "synthetic_market": "se_rl.data.synthetic",
    "load_dataset": "se_rl.data.catalog",
    "OBSERVATION_FIELDS": "se_rl.data.features",
    "ExecutionEnvironment": "se_rl.environments.execution_env",
    "ExecutionEnvConfig": "se_rl.environments.execution_env",
    "StaticEnvironment": "se_rl.environments.static_env",
    "StaticVectorEnv": "se_rl.environments.static_env",
    "DynamicEnvironment": "se_rl.environments.dynamic_env",
    "MultiAgentEnvironment": "se_rl.environments.multi_agent_env",
    "BaselinesConfig": "se_rl.baselines.settings",
    "run_baselines": "se_rl.baselines.table",
    "REWARD_FIELDS": "se_rl.modules.contracts",
    "PROFILE_RANGES": "se_rl.market.profile",
    "Modules": "se_rl.modules.defaults",
    "TrainConfig": "se_rl.rl.trainer",
    "train": "se_rl.rl.trainer",
    "PPOAgent": "se_rl.rl.ppo_agent",
    "PPOConfig": "se_rl.rl.ppo_agent",
    "CodeValidator": "se_rl.llm.code_validator",
}
__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(
            f"module 'se_rl' has no attribute {name!r}; public names: {', '.join(__all__)}"
        )
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
