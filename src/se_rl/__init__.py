"""SE-RL: a self-evolving reinforcement-learning researcher for financial order execution.

Importing the package is cheap; each public name is loaded when it is first used. `__init__.pyi`
tells type checkers what they are.
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
    "load_data": "se_rl.data.catalog",
    "load_dataset": "se_rl.data.catalog",
    "OBSERVATION_FIELDS": "se_rl.data.features",
    "LimitOrderBook": "se_rl.environments.limit_order_book",
    "Order": "se_rl.environments.limit_order_book",
    "OrderSide": "se_rl.environments.limit_order_book",
    "OrderType": "se_rl.environments.limit_order_book",
    "Trade": "se_rl.environments.limit_order_book",
    "ExecutionEnvironment": "se_rl.environments.execution_env",
    "ExecutionEnvConfig": "se_rl.environments.execution_env",
    "StaticEnvironment": "se_rl.environments.static_env",
    "StaticVectorEnv": "se_rl.environments.static_env",
    "StaticWorld": "se_rl.environments.static_world",
    "DynamicEnvironment": "se_rl.environments.dynamic_env",
    "DynamicVectorEnv": "se_rl.environments.dynamic_env",
    "DynamicWorld": "se_rl.environments.dynamic_world",
    "MultiAgentEnvironment": "se_rl.environments.multi_agent_env",
    "MarketProfile": "se_rl.market.profile",
    "BaselinesConfig": "se_rl.baselines.settings",
    "run_baselines": "se_rl.baselines.table",
    "ParentOrder": "se_rl.core.parent_order",
    "load_policy": "se_rl.core.deploy",
    "REWARD_FIELDS": "se_rl.modules.contracts",
    "PROFILE_RANGES": "se_rl.market.profile",
    "Modules": "se_rl.modules.defaults",
    "TrainConfig": "se_rl.rl.trainer",
    "train": "se_rl.rl.trainer",
    "PPOAgent": "se_rl.rl.ppo_agent",
    "PPOConfig": "se_rl.rl.ppo_agent",
    "CodeValidator": "se_rl.llm.code_validator",
    "ImaginationConfig": "se_rl.llm.imagination",
    "LLM4Imagine": "se_rl.llm.imagination",
    "LLMComponentGenerator": "se_rl.llm.generator",
    "LoRAConfig": "se_rl.llm.low_level_enhancement",
    "LowLevelEnhancement": "se_rl.llm.low_level_enhancement",
    "execute": "se_rl.scoring.execution",
    "RunConfig": "se_rl.records.settings",
    "RunResults": "se_rl.records.results",
    "preset": "se_rl.records.settings",
    "FinancialMetricsCalculator": "se_rl.core.financial_metrics",
    "SERLConfig": "se_rl.core.framework",
    "SERLFramework": "se_rl.core.framework",
    "SERLTrainingLoop": "se_rl.core.inner_loop",
    "TrainingLoopConfig": "se_rl.core.inner_loop",
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
