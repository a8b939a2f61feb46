"""A zoo of ordinary modules: `ZOO[code_type][name]` is source that every stage must let through and that really works."""

from zoo_networks import NETWORKS
from zoo_others import COMMUNICATIONS, IMAGINATIONS, PROFILES
from zoo_rewards import REWARDS

ZOO: dict[str, dict[str, str]] = {
    "reward": REWARDS,
    "network": NETWORKS,
    "communication": COMMUNICATIONS,
    "profiling": PROFILES,
    "imagination": IMAGINATIONS,
}
