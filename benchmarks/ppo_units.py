"""What a work unit costs: CPU seconds of one unit for networks of several kinds, all in turns."""

from __future__ import annotations

import time

import numpy as np

from se_rl.data.market_data import MarketData
from se_rl.environments.static_world import StaticWorld
from se_rl.modules.loading import load_design
from se_rl.rl.trainer import TrainConfig, Training
from se_rl_benchmarks.ppo_contenders import HORIZON

_HEAD = "class Network(nn.Module):\n"
NETWORKS = {
    "default": "",
    "linear": _HEAD
    + """    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 48
        self.first = nn.Linear(obs_dim * history, 48)

    def forward(self, obs):
        return self.first(obs.flatten(1))
""",
    "wide": _HEAD
    + """    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 128
        self.first = nn.Linear(obs_dim * history, 128)
        self.second = nn.Linear(128, 128)

    def forward(self, obs):
        return F.gelu(self.second(F.gelu(self.first(obs.flatten(1)))))
""",
    "GRU": _HEAD
    + """    history = 8

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.memory = nn.GRU(obs_dim, 32, batch_first=True)

    def forward(self, obs):
        return self.memory(obs)[0][:, -1]
""",
    "convolution": _HEAD
    + """    history = 8

    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 32
        self.filter = nn.Conv1d(obs_dim, 32, 3)

    def forward(self, obs):
        return torch.relu(self.filter(obs.transpose(1, 2))).mean(-1)
""",
    "two layers, designed": _HEAD
    + """    def __init__(self, obs_dim, history):
        super().__init__()
        self.feature_dim = 64
        self.first = nn.Linear(obs_dim * history, 64)
        self.second = nn.Linear(64, 64)

    def forward(self, obs):
        return torch.tanh(self.second(torch.tanh(self.first(obs.flatten(1)))))
""",
}


def unit_costs(data: MarketData, *, turns: int = 5) -> dict[str, float]:
    """CPU seconds per work unit and order steps per CPU second of each network, medians."""
    trainings = {}
    for name, source in NETWORKS.items():
        modules = load_design({"network": source} if source else {})
        world = StaticWorld(data, horizon=HORIZON)
        config = TrainConfig(budget=1e9, anneal=False)
        trainings[name] = Training.of_design(modules, {"static": world}, config, seed=0)
    seconds: dict[str, list[float]] = {name: [] for name in trainings}
    steps: dict[str, list[float]] = {name: [] for name in trainings}
    for turn in range(turns + 1):
        for name, training in trainings.items():
            before = training.work
            started = time.process_time()
            training.iterate("static")
            spent = time.process_time() - started
            if turn:  # the first one warms up
                seconds[name].append(spent / (training.work - before))
                steps[name].append(training.worlds["static"].orders[0] * HORIZON / spent)
    found = {}
    for name in trainings:
        found[f"CPU s per work unit, {name}"] = float(np.median(seconds[name]))
        found[f"order steps per CPU s, {name}"] = float(np.median(steps[name]))
    return found
