"""Source text to live objects: the only place that executes what a language model wrote.

Call these functions inside a locked process only. The short list of names that a module finds here
keeps well-meant modules within their contract; it stops no attacker, the operating system does.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from se_rl.modules.allowed_names import IMPORTS, PREIMPORTED, SAFE_BUILTINS
from se_rl.modules.errors import ModuleError, one_line
from se_rl.modules.kinds import KINDS

if TYPE_CHECKING:
    from se_rl.modules.defaults import Modules


def load_module(source: str, code_type: str) -> Any:
    """The live object of one module: a function, a class, or what its kind makes of it (for
    `profiling` the MarketProfile it describes)."""
    if code_type not in KINDS:
        raise ModuleError(f"there is no module {code_type!r}; use one of {', '.join(KINDS)}")
    contract = KINDS[code_type].contract
    namespace: dict[str, Any] = {"__builtins__": _builtins(), "__name__": code_type}
    for alias, module in PREIMPORTED.items():
        namespace[alias] = import_module(module)
    try:
        exec(compile(source, f"<{code_type}>", "exec", dont_inherit=True), namespace)
    except Exception as error:
        raise ModuleError(one_line(error, code_type)) from error
    entry = namespace.get(contract.entry)
    is_class = isinstance(entry, type) and issubclass(entry, namespace["torch"].nn.Module)
    if not callable(entry) or is_class != contract.is_class:
        raise ModuleError(
            f"`{contract.entry}` is missing or of the wrong kind; write `{contract.signature}`"
        )
    return KINDS[code_type].finish(entry)


def load_design(sources: Mapping[str, str]) -> Modules:
    """The live parts of a whole design; what it does not name keeps its default."""
    from se_rl.modules.defaults import Modules

    parts = {}
    for code_type, source in sources.items():
        live = load_module(source, code_type)
        parts[KINDS[code_type].part] = live
    return Modules(**parts)


def _builtins() -> dict[str, Any]:
    """The builtins that a module finds."""
    safe = {name: getattr(builtins, name) for name in SAFE_BUILTINS}
    return {**safe, "__build_class__": builtins.__build_class__, "__import__": _import}


def _import(
    name: str, scope: Any = None, local: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    """What `import` does in a module."""
    # C code of torch and numpy looks up its own modules through this, with a list
    from_library = isinstance(fromlist, list)
    if not from_library and (level or name not in IMPORTS | {"__future__"}):
        raise ImportError(f"{name} may not be imported; use only torch, nn, F and math")
    return __import__(name, scope, local, fromlist, level)
