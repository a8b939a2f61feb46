"""Source text to live objects: the only place that executes what a language model wrote.

Call these functions inside a locked process only, unless the grammar spelled the source. The short
list of names that a module finds here keeps well-meant modules within their contract; it stops no
attacker, the operating system does.
"""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from se_rl.modules.allowed_names import IMPORTS, PREIMPORTED, SAFE_BUILTINS
from se_rl.modules.errors import ModuleError, one_line
from se_rl.modules.kinds import KINDS
from se_rl.modules.static_check.scopes import methods_of

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
        exec(_compiled(source, f"<{code_type}>"), namespace)
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


def _compiled(source: str, file_name: str) -> types.CodeType:
    """The code of a source. A method that sets or reads state of its own first asks whose `self` it
    has: called with a class or an object of others it would change them."""
    tree = ast.parse(source, file_name)
    for method in methods_of(tree):
        first = (method.args.posonlyargs + method.args.args)[:1]
        if not (first and first[0].arg == "self" and _keeps_state(method)):
            continue
        asked = ast.parse("__check_self__(self, __class__)").body[0]
        for node in ast.walk(asked):
            ast.copy_location(node, method)
        method.body.insert(0 if ast.get_docstring(method, clean=False) is None else 1, asked)
    return compile(tree, file_name, "exec", dont_inherit=True)


def _keeps_state(method: ast.FunctionDef) -> bool:
    """Whether a method sets an attribute of self or uses a private one."""
    for node in ast.walk(method):
        if not isinstance(node, ast.Attribute):
            continue
        if isinstance(node.ctx, ast.Store) or node.attr.startswith("_"):
            return True
    return False


def _check_self(given: object, own: type) -> None:
    """What a method's guard calls."""
    if not isinstance(given, own):
        raise TypeError(
            f"a method of {own.__name__} was called on {type(given).__name__}; call it on an"
            f" object of {own.__name__}"
        )


def _print(*values: object, **options: object) -> None:
    """What `print` is in a module: nobody reads its output."""


def _builtins() -> dict[str, Any]:
    """The builtins that a module finds."""
    safe = {name: getattr(builtins, name) for name in SAFE_BUILTINS}
    return {
        **safe,
        "print": _print,
        "__check_self__": _check_self,
        "__build_class__": builtins.__build_class__,
        "__import__": _import,
    }


def _import(
    name: str, scope: Any = None, local: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    """What `import` does in a module."""
    # C code of torch and numpy looks up its own modules through this, with a list
    from_library = isinstance(fromlist, list)
    if not from_library and (level or name not in IMPORTS | {"__future__"}):
        raise ImportError(f"{name} may not be imported; use only torch, nn, F and math")
    return __import__(name, scope, local, fromlist, level)
