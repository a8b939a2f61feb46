"""The names that a module may use: imports, builtins, and what the importable modules offer."""

from __future__ import annotations

import re
import types
import warnings
from functools import lru_cache
from importlib import import_module
from typing import Any


def words(text: str) -> frozenset[str]:
    """The words of a list written as one text."""
    return frozenset(text.split())


def _interpreter_attributes() -> frozenset[str]:
    """The public attributes of frames, code, generators and tracebacks."""
    names: set[str] = set()
    names.update(dir(types.FrameType), dir(types.CodeType), dir(types.GeneratorType))
    names.update(dir(types.CoroutineType), dir(types.TracebackType))
    return frozenset(name for name in names if "_" in name and not name.startswith("_"))


PREIMPORTED = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "math": "math"}
"""Names that every module finds already there, and the modules they stand for."""

IMPORTS = words(
    "torch torch.nn torch.nn.functional torch.nn.init torch.nn.utils.parametrizations "
    "torch.linalg torch.fft torch.special math typing dataclasses itertools functools "
    "collections collections.abc statistics numpy numpy.linalg"
)
"""What may be imported, by exact name; no other module is reached through these."""

SAFE_BUILTINS = words(
    "abs all any bool bytes callable chr classmethod complex dict divmod enumerate filter float "
    "frozenset hasattr hash int isinstance issubclass iter len list map max min next object ord "
    "pow print property range repr reversed round set slice sorted staticmethod str sum super "
    "tuple type zip NotImplemented Ellipsis Exception ArithmeticError AssertionError "
    "AttributeError FloatingPointError IndexError KeyError LookupError NotImplementedError "
    "OverflowError RuntimeError StopIteration TypeError ValueError ZeroDivisionError"
)
"""The builtins that a module has, beside what `class` and `import` need."""

REFUSED_ATTRIBUTES = (
    words(
        "format_map tofile dump dumps ctypes storage typed_storage untyped_storage data_ptr "
        "storage_offset as_strided as_strided_ as_strided_copy as_strided_scatter set_ resize_ "
        "resize_as_ share_memory share_memory_ pin_memory record_stream from_file memmap compile "
        "backward mro with_traceback getfield setfield setflags byteswap _evaluate fget fset fdel "
        "obj register grad_fn set_submodule attrname resize sparse_resize_ "
        "sparse_resize_and_clear_ segment_reduce"
    )
    | _interpreter_attributes()
)
"""Attributes that no object may be asked for: files, raw memory, hooks, compilers, and what
interpreters are made of."""

REFUSED_NAMES = REFUSED_ATTRIBUTES | words(
    "bmat save savez savez_compressed savetxt load loadtxt genfromtxt fromfile fromregex "
    "frombuffer from_dlpack fromstring test info show_config show_runtime get_include seterr "
    "seterrcall setbufsize set_printoptions printoptions errstate nditer nested_iters "
    "DataParallel get_type_hints ForwardRef evaluate_forward_ref make_dataclass update_wrapper "
    "wraps singledispatch singledispatchmethod empty_strided empty_permuted ParameterDict "
    "sctypeDict typecodes ndarray recarray chararray ctc_loss CTCLoss"
)
"""Public names of the importable modules that touch files, memory, strings of code or the state of
a library."""

UNCHECKED = re.compile("(sparse_|fbgemm_|quantize|mkldnn_|cudnn_|miopen_|unsafe_).*")
"""Functions of torch that trust what they are told about memory: a wrong index reads beyond it."""

ONLY = {
    "dataclasses": words("dataclass field"),
    "functools": words("partial reduce lru_cache cache cached_property cmp_to_key"),
    "collections": words("OrderedDict defaultdict deque Counter namedtuple ChainMap"),
    "typing": words(
        "Any Callable ClassVar Deque DefaultDict Dict Final FrozenSet Generator Iterable Iterator "
        "List Literal Mapping NamedTuple Optional Protocol Sequence Set Tuple Type Union"
    ),
}
"""Modules of which only a few names are of use: the rest takes objects apart by name."""

TORCH_EXTRAS = words(
    "Tensor Size Generator device dtype finfo iinfo inf nan pi e newaxis no_grad enable_grad "
    "inference_mode is_tensor is_grad_enabled vmap FloatTensor DoubleTensor LongTensor "
    "IntTensor BoolTensor"
)
"""Names of torch beside its functions."""


@lru_cache
def public_names(module_name: str) -> frozenset[str]:
    """The attributes of an importable module that a design may use: public, no modules, nothing
    dangerous."""
    module = import_module(module_name)
    allowed = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in _names_for_users(module) - REFUSED_NAMES:
            is_module = isinstance(getattr(module, name, None), types.ModuleType)
            if not (is_module or name.startswith("_") or UNCHECKED.fullmatch(name)):
                allowed.add(name)
    return frozenset(allowed)


def _names_for_users(module: Any) -> set[str]:
    if module.__name__ == "torch":
        kinds = (module.dtype, module.layout, module.memory_format)
        names = {name for name in dir(module) if isinstance(getattr(module, name, None), kinds)}
        functions = {*dir(module._C._VariableFunctions), *module.functional.__all__}
        return names | functions | TORCH_EXTRAS
    if module.__name__.startswith("torch"):
        return {name for name in dir(module) if _is_of_torch(getattr(module, name))}
    if module.__name__ in ONLY:
        return set(ONLY[module.__name__])
    return set(getattr(module, "__all__", dir(module)))


def _is_of_torch(thing: object) -> bool:
    """A function or class that torch itself defines for users, not one that a file imports."""
    if isinstance(thing, types.BuiltinFunctionType):
        return True
    return isinstance(thing, type | types.FunctionType) and thing.__module__.startswith("torch.nn")
