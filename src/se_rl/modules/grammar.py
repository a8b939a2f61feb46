"""Grammars of the five modules: every string of a grammar is a complete, valid module of its contract.

The productions are stated once, as text with `<name>` where another rule stands. The Lark text for constrained decoding,
the sampler without a model, and the bounds on length are all derived from them. No rule reaches itself, so every sample
ends; most of the text is forced, so a model chooses little and decodes fast.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

import numpy as np

from se_rl.modules.contracts import CODE_TYPES, OBSERVATION_FIELDS, PROFILE_RANGES, MarketProfile

Rules = dict[str, tuple[str, ...]]
Part = tuple[bool, str]  # (is it a rule, its name or text)


def _one_of(values: str) -> tuple[str, ...]:
    return tuple(values.split())


REWARD: Rules = {
    "start": (
        "def reward(step):\n"
        "    value = step.traded_share * (step.fill_price - <reference>)<tilt>\n"
        "<mark><pair><term><term><term>    return <shape>\n",
    ),
    "reference": _one_of(
        "1.0 step.mid_before step.mid_after step.benchmark_price step.no_order_mid step.no_order_mid_before step.twap_fill_price"
    ),
    "tilt": ("", " * (1.0 + <coefficient> * <state>)"),
    "state": _one_of("step.time_left step.inventory_left step.imbalance step.imbalance.abs()"),
    "mark": ("", "    value = value + <weight> * step.inventory_left * (<move><news>)\n"),
    "move": ("step.mid_after - step.mid_before", "step.no_order_mid - step.no_order_mid_before"),
    "pair": (
        "",
        "    value = value - <weight> * step.twap_traded_share * (step.twap_fill_price - <reference>)\n<twap_mark>",
    ),
    "twap_mark": (
        "",
        "    value = value - <weight> * step.twap_inventory_left * (step.no_order_mid - step.no_order_mid_before<news>)\n",
    ),
    "news": ("", " - step.news"),
    "weight": _one_of("0.25 0.5 0.75 1.0"),
    "term": ("", "    value = value <sign> <coefficient> * <price> * <quantity><gate>\n"),
    "sign": ("+", "-"),
    "coefficient": _one_of("0.05 0.1 0.2 0.5 1.0 2.0 5.0"),
    "price": _one_of("0.0001 step.half_spread step.volatility step.own_impact"),
    "quantity": (
        *_one_of(
            "step.passive_share step.forced_share step.traded_share step.inventory_left step.inventory_left.square()"
        ),
        "step.traded_share.square()",
        "(step.inventory_left - step.time_left)<size>",
        "(step.inventory_left - step.twap_inventory_left)<size>",
        "(step.traded_share - step.twap_traded_share)<size>",
    ),
    "size": (".abs()", ".square()"),
    "gate": (
        "",
        " * step.imbalance",
        " * torch.sigmoid(<steep> * step.imbalance)",
        " * step.time_left",
        " * (1.0 - step.time_left)",
        " * step.half_spread / (step.half_spread + step.volatility + 0.00001)",
        " * step.volatility / (step.half_spread + step.volatility + 0.00001)",
    ),
    "steep": _one_of("1.0 2.0 5.0"),
    "shape": (
        "value",
        "value.clamp(-<cap>, <cap>)",
        "torch.tanh(<squash> * value)",
        "torch.where(value < 0.0, <aversion> * value, value)",
    ),
    "cap": _one_of("0.0005 0.001 0.002 0.005"),
    "squash": _one_of("100.0 300.0 1000.0 3000.0"),
    "aversion": _one_of("0.5 1.5 2.0 3.0"),
}

_FORWARD = "\n    def forward(self, obs):\n"
_GATE = f"{OBSERVATION_FIELDS.index('time_left')}:{OBSERVATION_FIELDS.index('inventory_left') + 1}"

NETWORK: Rules = {
    "start": (
        "class Network(nn.Module):\n"
        "    learning_rate = <learning_rate>\n"
        "    exploration = <exploration>\n"
        "    epochs = <epochs>\n"
        "    gae_lambda = <gae_lambda>\n"
        "    gae_lambda_dynamic = <gae_lambda_dynamic>\n"
        "    entropy_bonus = <entropy_bonus>\n"
        "    action_zero = <action_zero>\n"
        "    action_scale = <action_scale>\n"
        "    history = <family>",
    ),
    "learning_rate": _one_of("0.0003 0.0005 0.001 0.002 0.003 0.005"),
    "exploration": _one_of("0.2 0.3 0.4 0.6 0.8 1.0 1.2"),
    "epochs": _one_of("1 2 3 4 6 8"),
    "gae_lambda": _one_of("0.6 0.7 0.8 0.9 0.95 1.0"),
    "gae_lambda_dynamic": _one_of("0.9 0.95 0.98 1.0"),
    "entropy_bonus": _one_of("0.0 0.001 0.003 0.01"),
    "action_zero": _one_of("0.5 0.75 1.0 1.25 1.5 2.0"),
    "action_scale": _one_of("0.25 0.5 1.0 1.5 2.0"),
    "family": (
        *(f"{n}\n<init><flat>" for n in (1, 2, 3)),
        *(f"{n}\n<init><sequence>" for n in (4, 8, 16)),
    ),
    "init": (
        "\n    def __init__(self, obs_dim, history):\n"
        "        super().__init__()\n"
        "        width = <width>\n"
        "        self.feature_dim = width\n",
    ),
    "width": _one_of("8 16 24 32 48 64 96"),
    "flat": ("        self.first = nn.Linear(obs_dim * history, width)\n<hidden>",),
    "hidden": (
        f"{_FORWARD}        return self.first(obs.flatten(1))\n",
        "        self.act = nn.<act>()\n<deep>",
    ),
    "act": _one_of("Tanh ReLU SiLU GELU ELU"),
    "deep": (
        f"{_FORWARD}        return self.act(self.first(obs.flatten(1)))\n",
        f"        self.norm = nn.LayerNorm(width)\n{_FORWARD}"
        "        return self.act(self.norm(self.first(obs.flatten(1))))\n",
        f"        self.gate = nn.Linear(2, width)\n{_FORWARD}        gate = torch.sigmoid(self.gate(obs[:, -1, {_GATE}]))\n"
        "        return gate * self.act(self.first(obs.flatten(1)))\n",
        f"        self.second = nn.Linear(width, width)\n{_FORWARD}        hidden = self.act(self.first(obs.flatten(1)))\n"
        "        return <joined>\n",
    ),
    "joined": (
        "self.act(self.second(hidden))",
        "hidden + self.act(self.second(hidden))",
        "hidden * torch.sigmoid(self.second(hidden))",
    ),
    "sequence": (
        f"        self.memory = nn.<memory>(obs_dim, width, batch_first=True)\n{_FORWARD}"
        "        return self.memory(obs)[0][:, -1]\n",
        "        self.act = nn.<act>()\n        self.filter = nn.Conv1d(obs_dim, width, min(history, <kernel>))\n"
        f"{_FORWARD}        return self.act(self.filter(obs.transpose(1, 2)))<pool>\n",
        "        self.score = nn.Linear(obs_dim, 1)\n        self.value = nn.Linear(obs_dim, width)\n"
        f"{_FORWARD}        weight = torch.softmax(self.score(obs), 1)\n"
        "        return (weight * torch.tanh(self.value(obs))).sum(1)\n",
    ),
    "memory": _one_of("GRU LSTM RNN"),
    "kernel": _one_of("2 3 4"),
    "pool": (".amax(-1)", ".mean(-1)", "[..., -1]"),
}

_OTHERS = "(messages.sum(1, keepdim=True) - messages) / max(1, messages.shape[1] - 1)"
_OWN = "        own = torch.eye(messages.shape[1], device=messages.device)\n"
_HEAR = "\n    def forward(self, messages):\n"

COMMUNICATION: Rules = {
    "start": (
        "class Communication(nn.Module):\n"
        "    def __init__(self, agents, size):\n"
        "        super().__init__()\n"
        "        hidden = <hidden>\n"
        "        self.mix = nn.Sequential(nn.Linear(size, hidden), nn.<act>(), nn.Linear(hidden, size))\n"
        "<family>        heard = self.mix(heard)<keep>\n"
        "        return <gain> * <squash>(heard) * float(messages.shape[1] > 1)\n",
    ),
    "hidden": _one_of("4 8 12 16 24"),
    "act": _one_of("Tanh ReLU SiLU GELU ELU"),
    "family": (
        f"        self.gate = nn.Linear(size, size)\n{_HEAR}        heard = {_OTHERS}\n"
        "        heard = heard * torch.sigmoid(self.gate(messages))\n",
        "        self.query = nn.Linear(size, size)\n        self.key = nn.Linear(size, size)\n"
        f"{_HEAR}{_OWN}        scores = <sharp> * self.query(messages) @ self.key(messages).transpose(1, 2)\n"
        "        heard = torch.softmax(scores - 1000.0 * own, -1) @ messages\n",
        f"        self.links = nn.Parameter(torch.full((agents, agents), <link>))\n{_HEAR}{_OWN}"
        "        heard = (torch.tanh(self.links) * (1.0 - own)) @ messages\n",
        f"{_HEAR}<fixed>",
    ),
    "sharp": _one_of("0.5 1.0 2.0"),
    "link": _one_of("0.1 0.3 0.5 1.0"),
    "fixed": (
        f"        heard = {_OTHERS}\n",
        "        heard = messages.roll(<shift>, 1)\n",
        f"{_OWN}        heard = (messages[:, None] <most>\n",
    ),
    "shift": _one_of("1 -1"),
    "most": ("- 4.0 * own[None, :, :, None]).amax(2)", "+ 4.0 * own[None, :, :, None]).amin(2)"),
    "keep": ("", " + <share> * heard"),
    "share": _one_of("0.25 0.5 1.0 2.0"),
    "gain": _one_of("0.25 0.5 0.75 1.0"),
    "squash": _one_of("torch.tanh F.softsign F.hardtanh"),
}

IMAGINATION: Rules = {
    "start": (
        "def imagine(bars, generator):\n"
        "    rows, steps, kind = bars.shape[0], bars.shape[1], bars.dtype\n"
        "    volume, logs = bars[..., 4:], bars[..., :4].log()\n"
        "    start = logs[:, :1, :1]\n"
        "    moves = logs - torch.cat([start, logs[:, :-1, 3:]], 1)\n"
        "    drift = moves[..., 3:].mean()\n"
        "<change><more><more>"
        "    moves = moves - moves[..., 3:].mean() + drift\n"
        "    before = start + moves[..., 3:].cumsum(1) - moves[..., 3:]\n"
        "    prices = torch.exp(before + moves)\n"
        "    top, bottom = prices.amax(-1, keepdim=True), prices.amin(-1, keepdim=True)\n"
        "    return torch.cat([prices[..., :1], top, bottom, prices[..., 3:], volume], -1)\n",
    ),
    "more": ("", "<change>"),
    "change": (
        "    turned = torch.rand((<scope>, 1, 1), generator=generator) < <chance>\n"
        "    moves = torch.where(turned, -moves, moves)\n",
        "    size = torch.randn((<scope>, 1, 1), generator=generator, dtype=kind)\n"
        "    moves = moves * torch.exp(<spread> * size)\n",
        "    block = <block>\n"
        "    first = torch.randint(0, steps, (steps // block + 1, 1), generator=generator)\n"
        "    index = (first + torch.arange(block)).flatten()[:steps] % steps\n"
        "    moves, volume = moves[:, index], volume[:, index]\n",
        "    spell = <block>\n"
        "    storm = torch.rand((<scope>, steps // spell + 1, 1), generator=generator) < <chance>\n"
        "    moves = moves * (<calm> + <storm> * storm.repeat_interleave(spell, 1)[:, :steps])\n",
        "    noise = torch.randn((<scope>, steps, 1), generator=generator, dtype=kind)\n"
        "    moves = moves + <spread> * moves[..., 3:].abs().mean(1, keepdim=True) * noise\n",
        "    clock = torch.exp(<warp> * torch.randn((steps,), generator=generator)).cumsum(0)\n"
        "    index = (clock / clock[-1] * steps).long().clamp(0, steps - 1)\n"
        "    moves, volume = moves[:, index], volume[:, index]\n",
        "    flow = torch.randn((<scope>, 1, 1), generator=generator, dtype=kind)\n"
        "    volume = volume * torch.exp(<spread> * flow)\n",
    ),
    "scope": ("1", "rows"),
    "spread": _one_of("0.05 0.1 0.2 0.3 0.4 0.5"),
    "block": _one_of("10 20 30 60"),
    "chance": _one_of("0.1 0.2 0.3 0.5"),
    "calm": _one_of("0.6 0.8 1.0"),
    "storm": _one_of("0.5 1.0 1.5"),
    "warp": _one_of("0.1 0.2 0.3 0.5 0.8"),
}


def _profiling(must: tuple[int, ...] = (0, 4, 8)) -> Rules:
    """One number at most of each of ten groups of neighbours; of noise, makers and news always one."""
    groups = [[str(name) for name in group] for group in np.array_split(list(PROFILE_RANGES), 10)]
    usual = MarketProfile()
    body = "".join(f"<group_{i}>" for i in range(len(groups)))
    rules: Rules = {"start": (f"def profile():\n    return {{\n{body}    }}\n",)}
    for i, names in enumerate(groups):
        lines = tuple(f'        "{name}": <{name}>,\n' for name in names)
        rules[f"group_{i}"] = lines if i in must else ("", *lines)
    return rules | {
        name: _near(getattr(usual, name), *limits) for name, limits in PROFILE_RANGES.items()
    }


def _near(default: float, low: float, high: float) -> tuple[str, ...]:
    """Numbers from half to double the default that lie in the range."""
    values = [
        min(max(float(f"{default * factor:.3g}"), low), high)
        for factor in (0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0)
    ]
    return tuple(str(value) for value in dict.fromkeys(values))


PRODUCTIONS: dict[str, Rules] = {
    "reward": REWARD,
    "network": NETWORK,
    "communication": COMMUNICATION,
    "profiling": _profiling(),
    "imagination": IMAGINATION,
}
"""The rules of each module, by `code_type`: name -> alternatives."""


@lru_cache
def _parts(text: str) -> tuple[Part, ...]:
    pieces = re.split(r"<(\w+)>", text)
    return tuple((bool(i % 2), piece) for i, piece in enumerate(pieces) if piece)


def grammar(code_type: str) -> str:
    """The module's grammar as Lark text for llguidance.

    Its lexer takes the longest lexeme and never turns back, so texts are cut into words and single signs: no lexeme then
    begins another that could stand in the same place.
    """

    def alternative(text: str) -> str:
        cut = (
            [piece] if is_rule else map(json.dumps, re.findall(r"\w+|\W", piece))
            for is_rule, piece in _parts(text)
        )
        return " ".join(chain.from_iterable(cut)) or '""'

    rules = PRODUCTIONS[code_type]
    return "".join(
        f"{name}: {' | '.join(alternative(text) for text in texts)}\n"
        for name, texts in rules.items()
    )


def random_design(code_type: str, rng: np.random.Generator) -> str:
    """A module drawn without a model: at every choice each alternative is as likely as the others."""
    rules = PRODUCTIONS[code_type]

    def draw(name: str) -> str:
        text = rules[name][int(rng.integers(len(rules[name])))]
        return "".join(draw(piece) if is_rule else piece for is_rule, piece in _parts(text))

    return draw("start")


def _openings(rules: Rules, stack: tuple[Part, ...]) -> Iterator[tuple[str, tuple[Part, ...]]]:
    """The texts that can come next, each up to the next rule, with what follows it."""
    if not stack:
        yield "", ()
    elif not stack[0][0]:
        count = next((i for i, (is_rule, _) in enumerate(stack) if is_rule), len(stack))
        yield "".join(text for _, text in stack[:count]), stack[count:]
    else:
        for text in rules[stack[0][1]]:
            yield from _openings(rules, (*_parts(text), *stack[1:]))


def _choices(rules: Rules) -> int:
    """The most bytes of one string at which more than one byte was possible."""

    @lru_cache
    def most(stack: tuple[Part, ...]) -> int:
        openings = list(_openings(rules, stack))
        texts = [text for text, _ in openings]

        def forks(text: str) -> int:
            return sum(
                len({t[i : i + 1] for t in texts if t.startswith(text[:i])}) > 1
                for i in range(len(text) + 1)
            )

        return max(forks(text) + (most(rest) if rest else 0) for text, rest in openings)

    return most(((True, "start"),))


def _longest(rules: Rules, name: str = "start") -> int:
    return max(
        sum(_longest(rules, piece) if is_rule else len(piece) for is_rule, piece in _parts(text))
        for text in rules[name]
    )


GRAMMAR_TOKENS: dict[str, int] = {name: 2 * _choices(PRODUCTIONS[name]) for name in CODE_TYPES}
"""The most tokens of a module that a model chooses: twice the choices, as its tokens may also split the text before one.
Everything else is forced."""

GRAMMAR_BYTES: dict[str, int] = {name: _longest(PRODUCTIONS[name]) for name in CODE_TYPES}
"""The longest module of each grammar: as a cap on new tokens it cuts no sample of any tokeniser."""
