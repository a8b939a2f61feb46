"""The walk over a source: every node, name, attribute and call is one that a module may use."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Sequence

from se_rl.modules.allowed_names import (
    IMPORTS,
    PREIMPORTED,
    REFUSED_ATTRIBUTES,
    SAFE_BUILTINS,
    public_names,
)
from se_rl.modules.errors import SourceRefused, instead
from se_rl.modules.kinds.kind import ModuleKind
from se_rl.modules.static_check.scopes import (
    bound_names,
    methods_of,
    names_of_scope,
    names_set_on_self,
)
from se_rl.modules.static_check.syntax import (
    ALLOWED_DUNDERS,
    ALLOWED_NODES,
    NEVER,
    RANDOM,
    REFUSED_NODES,
    check_dunder,
    is_plain_format,
    module_internals,
)


class SourceWalk(ast.NodeVisitor):
    """Visits every node once; knows which names stand for modules and which are local."""

    def __init__(self, tree: ast.Module, kind: ModuleKind) -> None:
        self.kind = kind
        self.modules = dict(PREIMPORTED)
        self.taken: dict[str, str] = {}
        self.scopes: list[set[str]] = []
        self.stored = frozenset(bound_names(ast.walk(tree)))
        self.bound = set(self.stored)
        self.methods = methods_of(tree)
        self.own_names = {method.name for method in self.methods}
        self.own_names.update(names_set_on_self(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node, inside=node not in tree.body)

    def visit(self, node: ast.AST) -> None:
        """Any node: its type is one that modules may use."""
        name = type(node).__name__
        if name not in ALLOWED_NODES:
            raise SourceRefused(
                getattr(node, "lineno", None), f"do not use {REFUSED_NODES.get(name, name)}"
            )
        super().visit(node)

    def _import(self, node: ast.Import | ast.ImportFrom, *, inside: bool) -> None:
        package = ""
        if isinstance(node, ast.ImportFrom):
            package = node.module or ""
            if node.level or package not in {*IMPORTS, "__future__"}:
                raise _import_refused(node)
        for alias in node.names:
            dotted = f"{package}.{alias.name}" if package else alias.name
            is_module = dotted in IMPORTS
            if not is_module and package not in {*IMPORTS, "__future__"}:
                raise _import_refused(node)
            if not is_module and package in IMPORTS and alias.name not in public_names(package):
                raise _import_refused(node)
            name = alias.asname or (alias.name if package else alias.name.split(".")[0])
            module = dotted if alias.asname or package else name
            # a name stands for one thing only: the same module each time, or no module at all
            wanted = module if is_module else None
            taken = self.modules.setdefault(name, module) if wanted else self.modules.get(name)
            reserved = name.startswith("__") or name in ("self", "cls")
            if taken != wanted or reserved or (inside and name in self.stored):
                raise SourceRefused(
                    node.lineno,
                    f"the name {name} already stands for something; import under another name",
                )
            self.bound.add(name)
            if package in IMPORTS and not is_module:
                self.taken[name] = f"{package}.{alias.name}"

    def library_name(self, node: ast.expr) -> str | None:
        """The dotted name of what an expression takes from a library, wherever it stands."""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id) or self.taken.get(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        base = self.library_name(node.value)
        return f"{base}.{node.attr}" if base else None

    def _is_local(self, name: str) -> bool:
        return any(name in scope for scope in self.scopes)

    def _module(self, node: ast.expr) -> str | None:
        """The module that an expression stands for, if it does."""
        if isinstance(node, ast.Name):
            return None if self._is_local(node.id) else self.modules.get(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        base = self._module(node.value)
        dotted = f"{base}.{node.attr}"
        return dotted if base and dotted in IMPORTS else None

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """A function: what decorates it belongs to the scope outside."""
        check_dunder(node.name, node.lineno)
        for decorator in node.decorator_list:
            self.visit(decorator)
        if node.returns:
            self.visit(node.returns)
        self._function(node, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """A lambda: a function of one expression."""
        self._function(node, [node.body])

    def _function(self, node: ast.FunctionDef | ast.Lambda, body: Sequence[ast.AST]) -> None:
        """Defaults and annotations belong to the scope outside, the body to a new one."""
        self.visit(node.args)
        names = names_of_scope(body)
        for child in ast.iter_child_nodes(node.args):
            if isinstance(child, ast.arg):
                names.add(child.arg)
        self.scopes.append(names)
        for statement in body:
            self.visit(statement)
        self.scopes.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class: base classes only, no metaclass."""
        check_dunder(node.name, node.lineno)
        if node.keywords:
            raise SourceRefused(
                node.lineno, f"class {node.name} has keywords; write base classes only"
            )
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        """A name: local, bound by the source, or a safe builtin."""
        name = node.id
        check_dunder(name, node.lineno)
        if self._is_local(name):
            return
        if name in self.modules:
            loaded = isinstance(node.ctx, ast.Load)
            what = "use its functions by name" if loaded else "call your variable something else"
            raise SourceRefused(
                node.lineno, f"{name} stands for the module {self.modules[name]}; {what}"
            )
        if name not in NEVER and (name in SAFE_BUILTINS or name in self.bound):
            return
        if hasattr(builtins, name):
            raise SourceRefused(
                node.lineno, f"{name} is not allowed; write it with torch, or plainly without it"
            )
        raise SourceRefused(
            node.lineno,
            f"the name {name} is not defined{instead(name, self.bound | SAFE_BUILTINS)}",
        )

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """An attribute: a public name of a module, or one that objects may be asked for."""
        name = node.attr
        if module := self._module(node):
            raise SourceRefused(node.lineno, f"{module} is a module; use its functions by name")
        base = self._module(node.value)
        if base is None:
            self._check_attribute(node)
            self.visit(node.value)
            return
        if not isinstance(node.ctx, ast.Load):
            raise SourceRefused(
                node.lineno,
                f"{base}.{name} may not be changed; assign to a variable of your own",
            )
        if name not in public_names(base):
            raise SourceRefused(
                node.lineno, f"{base}.{name} is not allowed{instead(name, public_names(base))}"
            )

    def _check_attribute(self, node: ast.Attribute) -> None:
        """An attribute of an object, which is no module."""
        name = node.attr
        check_dunder(name, node.lineno)
        private = name.startswith("_") and name not in ALLOWED_DUNDERS
        refused = name in REFUSED_ATTRIBUTES or re.fullmatch("register_.*hook", name)
        if refused or (private and not self._is_own(node)):
            raise SourceRefused(
                node.lineno, f"the attribute {name} is not allowed; use public functions of torch"
            )
        if name == "format" and not is_plain_format(node.value):
            raise SourceRefused(
                node.lineno,
                "format is only allowed on a text with plain {} fields; use an f-string",
            )

    def _is_own(self, node: ast.Attribute) -> bool:
        """Whether it is an attribute that the source's own class has."""
        owner = node.value
        of_self = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
        return of_self and node.attr in self.own_names and node.attr not in module_internals()

    def visit_Call(self, node: ast.Call) -> None:
        """A call: random numbers as the kind allows, no new types, no generator of its own."""
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name == "Generator":
            raise SourceRefused(node.lineno, "do not make a Generator; use the one handed in")
        if self._draws(function, name):
            self._check_draw(node, name)
        self.visit(function)
        for child in [*node.args, *node.keywords]:
            self.visit(child)

    def _draws(self, function: ast.expr, name: str) -> bool:
        """Whether a call draws random numbers."""
        if name not in RANDOM:
            return False
        if isinstance(function, ast.Attribute):
            return self._module(function.value) is not None or name.endswith("_")
        return isinstance(function, ast.Name) and name not in self.stored

    def _check_draw(self, node: ast.Call, name: str) -> None:
        """Random numbers only as the kind allows."""
        if self.kind.draws == "never":
            raise SourceRefused(
                node.lineno,
                f"{name} draws random numbers; a {self.kind.code_type} must be deterministic",
            )
        given = any(keyword.arg == "generator" for keyword in node.keywords)
        if self.kind.draws == "from the generator" and not given:
            plain = name.removesuffix("_like")
            raise SourceRefused(
                node.lineno,
                f"{name} draws from no generator; write torch.{plain}(shape, generator=generator)",
            )


def _import_refused(node: ast.Import | ast.ImportFrom) -> SourceRefused:
    return SourceRefused(
        node.lineno, f"`{ast.unparse(node)}` is not allowed; use only torch, nn, F and math"
    )
