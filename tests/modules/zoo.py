"""A zoo of ordinary modules: `ZOO[code_type][name]` is source that every stage must let through and that really works."""

from zoo_idioms import IDIOM_COMMUNICATIONS, IDIOM_NETWORKS, IDIOM_REWARDS
from zoo_networks import NETWORKS
from zoo_others import COMMUNICATIONS, IMAGINATIONS, PROFILES
from zoo_rewards import REWARDS

ZOO: dict[str, dict[str, str]] = {
    "reward": REWARDS | {f"idiom_{name}": text for name, text in IDIOM_REWARDS.items()},
    "network": NETWORKS | {f"idiom_{name}": text for name, text in IDIOM_NETWORKS.items()},
    "communication": COMMUNICATIONS
    | {f"idiom_{name}": text for name, text in IDIOM_COMMUNICATIONS.items()},
    "profiling": PROFILES,
    "imagination": IMAGINATIONS,
}
