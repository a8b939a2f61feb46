"""The kinds of module that a language model may write, in the order of pages and prompts.

A new kind is a file here and a line below; see `ModuleKind` for what it states.
"""

from __future__ import annotations

from se_rl.modules.kinds.communication import COMMUNICATION
from se_rl.modules.kinds.imagination import IMAGINATION
from se_rl.modules.kinds.kind import ModuleKind
from se_rl.modules.kinds.network import NETWORK
from se_rl.modules.kinds.profiling import PROFILING
from se_rl.modules.kinds.reward import REWARD

KINDS: dict[str, ModuleKind] = {
    kind.code_type: kind for kind in (REWARD, NETWORK, COMMUNICATION, PROFILING, IMAGINATION)
}
"""Every kind, by its code_type."""
