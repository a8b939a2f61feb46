"""Language models behind one door: `open_designer` takes a name, a folder, an address, or an object
of your own.
"""

from __future__ import annotations

from se_rl.llm.backends import (
    Abilities,
    Designer,
    LlmError,
    Proposal,
    Request,
    TextGenerator,
    as_designer,
)
from se_rl.llm.generator import LLMComponentGenerator, open_designer

__all__ = [
    "Abilities",
    "Designer",
    "LLMComponentGenerator",
    "LlmError",
    "Proposal",
    "Request",
    "TextGenerator",
    "as_designer",
    "open_designer",
]
