"""Source text to live objects: the only place that executes what a language model wrote.

Call these functions inside a locked process only. The short list of names a module finds here keeps honest modules honest;
it stops no attacker, the operating system does.
"""

from __future__ import annotations

import builtins
import traceback
import types
import warnings
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from se_rl.data.market_data import DataError
from se_rl.modules.contracts import (
    CODE_TYPES,
    CONTRACTS,
    NETWORK_CONSTANTS,
    PROFILE_RANGES,
    MarketProfile,
)

if TYPE_CHECKING:
    from se_rl.modules.defaults import Modules


def words(text: str) -> frozenset[str]:
    """The words of a list written as one text."""
    return frozenset(text.split())


PREIMPORTED = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "math": "math"}
"""Names that every module finds already there, and the modules they stand for."""

IMPORTS = words(
    "torch torch.nn torch.nn.functional torch.nn.init torch.nn.utils.parametrizations torch.linalg torch.fft "
    "torch.special math typing dataclasses itertools functools collections collections.abc statistics numpy "
    "numpy.linalg"
)
"""What may be imported, by exact name; no other module is reached through these."""

SAFE_BUILTINS = words(
    "abs all any bool bytes callable chr classmethod complex dict divmod enumerate filter float frozenset hasattr "
    "hash int isinstance issubclass iter len list map max min next object ord pow print property range repr reversed "
    "round set slice sorted staticmethod str sum super tuple type zip NotImplemented Ellipsis Exception "
    "ArithmeticError AssertionError AttributeError FloatingPointError IndexError KeyError LookupError "
    "NotImplementedError OverflowError RuntimeError StopIteration TypeError ValueError ZeroDivisionError"
)
"""The builtins that a module has, beside what `class` and `import` need."""

REFUSED_ATTRIBUTES = words(
    "format_map tofile dump dumps ctypes storage typed_storage untyped_storage data_ptr storage_offset as_strided "
    "as_strided_ as_strided_copy as_strided_scatter set_ resize_ resize_as_ share_memory share_memory_ pin_memory "
    "record_stream from_file memmap compile backward mro with_traceback getfield setfield setflags byteswap _evaluate"
) | {
    name
    for kind in (
        types.FrameType,
        types.CodeType,
        types.GeneratorType,
        types.CoroutineType,
        types.TracebackType,
    )
    for name in dir(kind)
    if "_" in name and not name.startswith("_")
}
"""Attributes that no object may be asked for: files, raw memory, hooks, compilers, and what interpreters are made of."""

REFUSED_NAMES = REFUSED_ATTRIBUTES | words(
    "bmat save savez savez_compressed savetxt load loadtxt genfromtxt fromfile fromregex frombuffer from_dlpack fromstring "
    "test info show_config show_runtime get_include seterr seterrcall setbufsize set_printoptions printoptions "
    "errstate nditer nested_iters DataParallel get_type_hints ForwardRef evaluate_forward_ref make_dataclass "
    "update_wrapper wraps singledispatch singledispatchmethod empty_strided empty_permuted"
)
"""Public names of the importable modules that touch files, memory, strings of code or the state of a library."""

TORCH_EXTRAS = words(
    "Tensor Size Generator device dtype finfo iinfo inf nan pi e newaxis no_grad enable_grad inference_mode is_tensor "
    "is_grad_enabled vmap FloatTensor DoubleTensor LongTensor IntTensor BoolTensor"
)


class ModuleError(ValueError):
    """A module's source cannot be used; the message is one line that a language model can act on."""


def load_module(source: str, code_type: str) -> Any:
    """The live object of one module: a function, a class, or for `profiling` the MarketProfile it describes."""
    if code_type not in CONTRACTS:
        raise ModuleError(f"there is no module {code_type!r}; use one of {', '.join(CODE_TYPES)}")
    contract = CONTRACTS[code_type]
    name = f"<{code_type}>"
    namespace: dict[str, Any] = {"__builtins__": _builtins(), "__name__": code_type}
    namespace |= {alias: import_module(module) for alias, module in PREIMPORTED.items()}
    try:
        exec(compile(source, name, "exec", dont_inherit=True), namespace)
    except Exception as error:
        raise ModuleError(one_line(error, code_type)) from error
    entry = namespace.get(contract.entry)
    is_class = isinstance(entry, type) and issubclass(entry, namespace["torch"].nn.Module)
    if not callable(entry) or is_class != contract.signature.startswith("class"):
        raise ModuleError(
            f"`{contract.entry}` is missing or of the wrong kind; write `{contract.signature}`"
        )
    if code_type == "network":
        _check_constants(entry)
    return _market_profile(entry) if code_type == "profiling" else entry


def load_design(sources: Mapping[str, str]) -> Modules:
    """The live parts of a whole design; what it does not name keeps its default."""
    from se_rl.modules.defaults import Modules

    parts = {"profiling": "profile", "imagination": "imagine"}
    return Modules(
        **{parts.get(name, name): load_module(source, name) for name, source in sources.items()}
    )


def one_line(error: BaseException, code_type: str) -> str:
    """An error of a module as one printable line: where in its source, what kind, what it said."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == f"<{code_type}>"
    ]
    line = frames[-1].lineno if frames else getattr(error, "lineno", None)
    where = f"line {line}: " if line else ""
    said = "".join(c if c.isprintable() else " " for c in str(error))
    return " ".join(f"{where}{type(error).__name__}: {said}".split())[:400]


def _builtins() -> dict[str, Any]:
    def importer(
        name: str, scope: Any = None, local: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        from_library = isinstance(
            fromlist, list
        )  # C code of torch and numpy looks up its own modules through this
        if not from_library and (level or name not in IMPORTS | {"__future__"}):
            raise ImportError(f"{name} may not be imported; use only torch, nn, F and math")
        return __import__(name, scope, local, fromlist, level)

    safe = {name: getattr(builtins, name) for name in SAFE_BUILTINS}
    return {**safe, "__build_class__": builtins.__build_class__, "__import__": importer}


def _check_constants(network: type) -> None:
    for name, known in NETWORK_CONSTANTS.items():
        value = getattr(network, name, known.default)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not known.low <= value <= known.high
        ):
            raise ModuleError(
                f"{name} = {value!r} is out of range; set a number from {known.low:g} to {known.high:g}"
            )


def _market_profile(profile: Any) -> MarketProfile:
    try:
        numbers = profile()
    except Exception as error:
        raise ModuleError(one_line(error, "profiling")) from error
    if not isinstance(numbers, dict):
        raise ModuleError(f"profile() returned {type(numbers).__name__}; return a dict of numbers")
    for name, value in numbers.items():
        if name not in PROFILE_RANGES:
            raise ModuleError(
                f"profile() names {str(name)[:60]!r}, which no market has; use names of the contract"
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModuleError(f"profile() sets {name} to {str(value)[:60]!r}; give a number")
    try:
        return MarketProfile(**{name: float(value) for name, value in numbers.items()})
    except (DataError, OverflowError) as error:
        raise ModuleError(" ".join(str(error).split())) from error


@lru_cache
def public_names(module_name: str) -> frozenset[str]:
    """The attributes of an importable module that a design may use: public, no modules, nothing dangerous."""
    module = import_module(module_name)
    if module_name == "torch":
        kinds = (module.dtype, module.layout, module.memory_format)
        names = {name for name in dir(module) if isinstance(getattr(module, name, None), kinds)}
        names |= (
            TORCH_EXTRAS | set(dir(module._C._VariableFunctions)) | set(module.functional.__all__)
        )
    elif module_name.startswith("torch"):
        names = {name for name in dir(module) if _is_of_torch(getattr(module, name))}
    elif module_name == "typing":
        names = {name for name in module.__all__ if name[0].isupper()} - {"ForwardRef"}
    else:
        names = set(getattr(module, "__all__", dir(module)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modules = {
            name for name in names if isinstance(getattr(module, name, None), types.ModuleType)
        }
    return frozenset(name for name in names - modules - REFUSED_NAMES if not name.startswith("_"))


def _is_of_torch(thing: object) -> bool:
    """A function or class that torch itself defines for users, not one that a file happens to import."""
    if isinstance(thing, types.BuiltinFunctionType):
        return True
    return isinstance(thing, type | types.FunctionType) and thing.__module__.startswith("torch.nn")
