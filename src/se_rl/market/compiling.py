"""One kernel out of many files: plain Python functions compiled together for a CPU or a GPU."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from se_rl.market import kernel, price_levels, price_window

Function = Callable[..., Any]
Namespace = dict[str, object]


def make_kernel(
    jit: Callable[[Function], Any], *more: Function, ready: Mapping[Function, Any] | None = None
) -> SimpleNamespace:
    """The book's functions, and `more` that call them, compiled by `jit` and calling one another."""
    book = (*price_levels.FUNCTIONS, *price_window.FUNCTIONS, *kernel.FUNCTIONS)
    return compile_together(jit, *book, *more, ready=ready)


def compile_together(
    jit: Callable[[Function], Any],
    *functions: Function,
    ready: Mapping[Function, Any] | None = None,
) -> SimpleNamespace:
    """Functions of several files, compiled by `jit` and calling one another.

    They may import one another by any name, and see the upper-case constants and modules of their
    files. `ready` are numba's own functions that take the place of some of them.

    `source_hash` changes with their files and constants. numba's disk cache looks at the caller's
    file alone and would run old machine code after an edit here, so a cached caller must hold the
    hash as a closure variable (book.py shows how).
    """
    instead = dict(ready or {})
    names = _shared_names(functions)
    sources = (*functions, *[given.py_func for given in instead.values()])
    source_hash = _source_hash(sources, names)
    names["__name__"] = __name__
    compiled: dict[Function, Any] = {}
    for function in functions:
        bare = FunctionType(function.__code__, names, function.__name__)
        compiled[function] = instead[function] if function in instead else jit(bare)
    for function in functions:
        for alias, value in function.__globals__.items():
            if isinstance(value, FunctionType) and value in compiled:
                names[alias] = compiled[value]
    by_name = {function.__name__: compiled[function] for function in functions}
    names.update(by_name)
    return SimpleNamespace(**by_name, source_hash=source_hash)


def _shared_names(functions: tuple[Function, ...]) -> Namespace:
    """The constants and modules of all files; one name cannot mean two numbers."""
    names: Namespace = {}
    for function in functions:
        for name, value in function.__globals__.items():
            if not (name.isupper() or isinstance(value, ModuleType)):
                continue
            known = names.setdefault(name, value)
            if name.isupper() and isinstance(value, int | float) and value != known:
                raise NameError(
                    f"{name} has two values in the files of the kernel's functions; "
                    "rename one of them"
                )
    return names


def _source_hash(functions: tuple[Function, ...], names: Namespace) -> int:
    """A hash of the functions' files and of every constant they see."""
    digest = hashlib.sha256()
    for file in sorted({function.__code__.co_filename for function in functions}):
        digest.update(Path(file).read_bytes())
    for name, value in sorted(names.items()):
        if isinstance(value, int | float):
            digest.update(f"{name}={value};".encode())
    return int(digest.hexdigest()[:15], 16)
