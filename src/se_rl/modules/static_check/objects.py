"""What a source may do to objects: which it changes, which classes it makes, how it asks for types.

The rules are closed forms. An attribute is set on `self` in a method of an own class, or on an
object that the source has just made; a double-underscore name is bound only as a usual method; a
class derives from own classes or a few of torch.nn and replaces none of their methods.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from functools import cached_property

from se_rl.modules.allowed_names import IMPORTS, words
from se_rl.modules.errors import SourceRefused
from se_rl.modules.static_check.scopes import (
    bound_names,
    methods_of,
    names_of_scope,
    own_nodes,
)
from se_rl.modules.static_check.syntax import is_dunder, module_names

Library = Callable[[ast.expr], str | None]
"""The dotted name of what an expression takes from a library ("torch.nn.Linear"), or None."""

BASES = words(
    "torch.nn.Module torch.nn.Sequential torch.nn.ModuleList torch.nn.ModuleDict torch.nn.Linear "
    "torch.nn.Conv1d torch.nn.Embedding torch.nn.LayerNorm"
)
"""Classes of torch.nn that a class may derive from."""
PLAIN_BASES = words("object Exception ValueError RuntimeError typing.NamedTuple typing.Protocol")
"""Further bases, which no layer has."""
METHODS = words("__init__ __repr__ __call__ __post_init__")
"""The double-underscore names that a class may define."""
REPLACED = words("forward extra_repr")
"""What a class may define though nn.Module has it."""
TENSOR_FLAGS = words("data requires_grad")
"""Attributes that may be set on any local object."""
WEIGHTS = words("weight bias")
"""Attributes that may be set on a layer that the source has made itself."""
DECORATED = words("staticmethod classmethod property")


class ObjectRules:
    """One source: its classes, its methods, and where each node stands."""

    def __init__(self, tree: ast.Module, library: Library) -> None:
        self.tree = tree
        self.library = library
        self.methods = methods_of(tree)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.bindings: dict[str, list[ast.AST]] = {}
        self.made: dict[str, list[ast.AST]] = {}
        self._name_makers: dict[str, set[str]] = {}
        self._attribute_makers: dict[str, set[str]] = {}
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            for name in bound_names([node]):
                self.bindings.setdefault(name, []).append(node)
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                self.made.setdefault(node.attr, []).append(node)
        self.instance_methods = self._instance_methods()
        self.has_layers = any(self._layer_bases())

    def check(self) -> None:
        """Refuse the first thing that breaks a rule."""
        for name, nodes in self.bindings.items():
            for node in nodes:
                self._check_binding(name, node)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ClassDef):
                self._check_class(node)
            elif isinstance(node, ast.Attribute):
                self._check_attribute(node)
            elif isinstance(node, ast.Name):
                self._check_name(node)

    def _instance_methods(self) -> set[str]:
        names: set[str] = set()
        for method in self.methods:
            if not DECORATED & _decorators(method):
                names.add(method.name)
        return names

    def _layer_bases(self) -> Iterator[str]:
        for node in self.classes.values():
            for base in node.bases:
                if (name := self.library(base)) in BASES:
                    yield name

    def _check_binding(self, name: str, node: ast.AST) -> None:
        """A bound name: self and cls are a method's first argument, and dunders are methods."""
        line = getattr(node, "lineno", None)
        if name in ("self", "cls") and not self._is_first_argument(node):
            raise SourceRefused(
                line, f"only a method's first argument may be called {name}; use another name"
            )
        if is_dunder(name) and not (node in self.methods and name in METHODS):
            raise SourceRefused(line, f"{name} may not be set or defined; use another name")

    def _is_first_argument(self, node: ast.AST) -> bool:
        function = self.parents.get(self.parents.get(node, node))
        if not (isinstance(function, ast.FunctionDef) and function in self.methods):
            return False
        first = (function.args.posonlyargs + function.args.args)[:1]
        is_self = isinstance(node, ast.arg) and node.arg == "self"
        fixed = {"staticmethod", "classmethod"} if is_self else {"staticmethod"}
        return node in first and not fixed & _decorators(function)

    def _check_class(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            self._check_base(node, base)
        names = names_of_scope(node.body)
        for name in sorted(names):
            hides = name in ("type", "super") or self.library(ast.Name(name, ast.Load()))
            if hides or (hasattr(builtins, name) and name in self.bindings and self._nested(node)):
                raise SourceRefused(
                    node.lineno, f"{name} may not be set in a class; use another name"
                )
            if self.has_layers and name in module_names() - REPLACED:
                raise SourceRefused(
                    node.lineno,
                    f"{node.name} may not replace {name} of nn.Module; leave it out,"
                    " write __init__ and forward",
                )
        if "__call__" in names and (node.bases or node.name in self._base_names):
            raise SourceRefused(
                node.lineno, f"{node.name} may not replace __call__; write forward instead"
            )
        if any(isinstance(part, ast.Import | ast.ImportFrom) for part in own_nodes(node.body)):
            raise SourceRefused(node.lineno, "import at the top of the source, not in a class")

    def _check_base(self, node: ast.ClassDef, base: ast.expr) -> None:
        name = self.library(base)
        plain = base.id if isinstance(base, ast.Name) else ""
        if name in BASES | PLAIN_BASES or (name is None and plain in {*self.classes, *PLAIN_BASES}):
            return
        raise SourceRefused(
            node.lineno,
            f"{node.name} may not derive from {ast.unparse(base)}; derive from nn.Module",
        )

    def _nested(self, node: ast.ClassDef) -> bool:
        return self.parents.get(node) is not self.tree

    @cached_property
    def _base_names(self) -> set[str]:
        names: set[str] = set()
        for node in self.classes.values():
            names.update(base.id for base in node.bases if isinstance(base, ast.Name))
        return names

    def _check_name(self, node: ast.Name) -> None:
        """type and super are called in their usual forms, and are no values."""
        if not isinstance(node.ctx, ast.Load) or node.id not in ("type", "super"):
            return
        above = self.parents.get(node)
        call = above if isinstance(above, ast.Call) and above.func is node else None
        if node.id == "super" and not (call and self._is_usual_super(call)):
            raise SourceRefused(node.lineno, "write super().method(...), and super in no other way")
        if node.id == "type" and not (call and self._is_usual_type(call)):
            raise SourceRefused(
                node.lineno,
                "type(x) may only be compared or asked for its __name__; use isinstance(x, ...)",
            )

    def _is_usual_super(self, call: ast.Call) -> bool:
        if call.keywords or not call.args:
            return not call.keywords
        names = [part.id for part in call.args if isinstance(part, ast.Name)]
        return len(call.args) == len(names) == 2 and names[0] in self.classes and names[1] == "self"

    def _is_usual_type(self, call: ast.Call) -> bool:
        one = len(call.args) == 1 and not call.keywords
        if not one or isinstance(call.args[0], ast.Starred):
            return False
        above = self.parents.get(call)
        asks_name = isinstance(above, ast.Attribute) and above.attr == "__name__"
        return asks_name or isinstance(above, ast.Compare | ast.FormattedValue)

    def _check_attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._check_store(node)
            return
        if is_dunder(node.attr) and node.attr != "__name__" and not self._is_usual_dunder(node):
            raise SourceRefused(
                node.lineno,
                f"{node.attr} may only be called on super(); write super().{node.attr}(...)",
            )
        owner = node.value
        taken = self.library(owner) or ""
        if node.attr != "__init__" and taken.startswith("torch.nn.") and taken not in IMPORTS:
            raise SourceRefused(
                node.lineno, f"{ast.unparse(node)} is not allowed; make a layer and call it"
            )
        of_class = isinstance(owner, ast.Name) and owner.id in {*self.classes, "cls"}
        if of_class and node.attr in self.instance_methods and not self._is_called_with_self(node):
            raise SourceRefused(
                node.lineno,
                f"{ast.unparse(node)} is a method; call it on an object, or as"
                f" self.{node.attr}(...)",
            )

    def _is_usual_dunder(self, node: ast.Attribute) -> bool:
        owner = node.value
        if isinstance(owner, ast.Call):
            return isinstance(owner.func, ast.Name) and owner.func.id == "super"
        known = self.library(owner) in BASES
        own = isinstance(owner, ast.Name) and owner.id in self.classes
        return node.attr == "__init__" and (known or own) and self._is_called_with_self(node)

    def _is_called_with_self(self, node: ast.Attribute) -> bool:
        call = self.parents.get(node)
        if not (isinstance(call, ast.Call) and call.func is node and call.args):
            return False
        return _is_self(call.args[0])

    def _check_store(self, node: ast.Attribute) -> None:
        """Set on self, a tensor's flags on what is local, all else on what was just made here."""
        name = node.attr
        line = node.lineno
        if is_dunder(name) or (self.has_layers and name in module_names()):
            raise SourceRefused(
                line, f"{name} belongs to Python or nn.Module; call your attribute something else"
            )
        if isinstance(node.ctx, ast.Del) or not self._may_be_set(node):
            raise SourceRefused(
                line, f"{ast.unparse(node)} may not be set or deleted here; keep state in self"
            )

    def _may_be_set(self, node: ast.Attribute) -> bool:
        owner = node.value
        if _is_self(owner):
            return True
        if isinstance(owner, ast.Name):
            makers = self._makers_of_name(owner.id)
        elif isinstance(owner, ast.Attribute) and _is_self(owner.value):
            in_class = owner.attr in self._class_names
            makers = set() if in_class else self._makers_of_attribute(owner.attr)
        else:
            makers = set()
        if makers == {"own"} or (makers == {"layer"} and node.attr in WEIGHTS):
            return True
        return node.attr in TENSOR_FLAGS and self._is_local(owner)

    @cached_property
    def _class_names(self) -> set[str]:
        names: set[str] = set()
        for node in self.classes.values():
            names |= names_of_scope(node.body)
        return names

    def _makers_of_name(self, name: str) -> set[str]:
        """What binds a name, looked at once however often it is used."""
        if name not in self._name_makers:
            self._name_makers[name] = self._makers(self.bindings.get(name, []))
        return self._name_makers[name]

    def _makers_of_attribute(self, name: str) -> set[str]:
        """What sets an attribute of self, looked at once."""
        if name not in self._attribute_makers:
            self._attribute_makers[name] = self._makers(self.made.get(name, []))
        return self._attribute_makers[name]

    def _makers(self, targets: list[ast.AST]) -> set[str]:
        """Whether these places bind own objects, layers, or others."""
        makers = set()
        for target in targets:
            statement = self.parents.get(target)
            value = getattr(statement, "value", None)
            maker = "other"
            if isinstance(statement, ast.Assign) and isinstance(value, ast.Call):
                if isinstance(value.func, ast.Name) and value.func.id in self.classes:
                    maker = "own"
                elif (self.library(value.func) or "").startswith("torch.nn."):
                    maker = "layer"
            makers.add(maker)
        return makers

    def _is_local(self, node: ast.expr) -> bool:
        """Whether a value comes from a name that a function binds: no class, nothing imported."""
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        if not isinstance(node, ast.Name) or self.library(node) or node.id in self.classes:
            return False
        return node.id in self.bindings


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _decorators(function: ast.FunctionDef) -> set[str]:
    return {mark.id for mark in function.decorator_list if isinstance(mark, ast.Name)}
