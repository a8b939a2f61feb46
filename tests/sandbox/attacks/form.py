"""The form of the corpus: an attack is (source of a reward, name of the oracle that shows whether it got its way).

Sources hold marks that the runner fills in for each run: `$folder`, `$secret`, `$port`, `$victim`, ... (see `Canaries`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

Attacks = dict[str, tuple[str, str]]
"""Attack's name -> source, oracle."""

ENDINGS = {
    "leak": "return torch.tensor([float(c) for c in (data if isinstance(data, bytes) else str(data).encode())])",
    "claim": "return step.news * 0 + 7777",
}
"""How a reward hands over what it stole (in `data`), or says that what it tried was done."""


def rewards(oracle: str, bodies: Mapping[str, str], *, head: str = "") -> Attacks:
    """Attacks of one oracle from the bodies of their reward functions; `head` starts each body."""
    return {
        name: (reward(head + textwrap.dedent(body), oracle), oracle)
        for name, body in bodies.items()
    }


def reward(body: str, oracle: str = "") -> str:
    """A whole reward around a body."""
    lines = f"{textwrap.dedent(body).strip()}\n{ENDINGS.get(oracle, 'return step.news')}"
    return f"def reward(step):\n{textwrap.indent(lines, '    ')}\n"
