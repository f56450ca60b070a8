"""Library: operators of a namespace by schema text, with implementations given later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft.library.registry as registry
from weft.library.operators import ANY_DEVICE, USER_OPERATORS, UserOperator
from weft.library.schemas import parse
from weft.support.errors import ArgumentError, StateError, ValueProblem

Rule = Callable[..., Any]
_OWNERS: dict[str, Library] = {}  # of namespaces: the library of kind DEF
_KINDS = ("DEF", "FRAGMENT", "IMPL")


class Library:
    """Operators of a namespace.

    ns: the namespace. kind: "DEF" (the namespace is this library's; there is one), "FRAGMENT" (more operators of a
    namespace) or "IMPL" (implementations of operators that exist). dispatch_key: where implementations go for which
    nothing is said.
    Raises ValueProblem (a ValueError) for another kind or a namespace of weft's, StateError for a second "DEF".
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in _KINDS:
            raise ValueProblem(f"Unsupported kind: {kind}")
        if ns == "prim":
            raise ValueProblem(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if kind == "DEF":
            if ns in _OWNERS:
                raise StateError(
                    f"Only a single Library of kind DEF can be used to register the namespace {ns}; put all "
                    "definitions into one, or use the kind FRAGMENT"
                )
            _OWNERS[ns] = self
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._made: list[UserOperator] = []

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator, `name(Tensor x, int n=1) -> Tensor`, and return its name.

        alias_analysis, tags: accepted as PyTorch has them. Raises ParseError for a text that is no schema, StateError
        for a name that is taken, ArgumentError from a library of kind "IMPL".
        """
        if self.kind == "IMPL":
            raise ArgumentError(f"a Library of kind IMPL defines no operators: {schema}")
        parsed = parse(f"{self.ns}::{schema.strip()}")
        if parsed.name in USER_OPERATORS:
            raise StateError(
                f"Tried to register an operator ({parsed}) with the same name and overload name multiple times. Each "
                "overload's schema should only be registered with a single call to def()."
            )
        self._made.append(UserOperator(parsed))
        return schema.partition("(")[0].strip()

    def impl(
        self, op_name: Any, fn: Rule, dispatch_key: str = "", *, with_keyset: bool = False, allow_override: bool = True
    ) -> None:
        """Register an implementation of an operator of the namespace.

        dispatch_key: "CPU" or another device; "CompositeExplicitAutograd" for all of them (the default);
        "CompositeImplicitAutograd" for a function of operators whose gradient follows; "Autograd" for what runs before
        autograd looks (the operator that it calls is the one below); "Meta" for types alone, as register_fake.
        """
        if not callable(fn):
            raise ArgumentError(f"Input function is required to be a callable but found type {type(fn)}")
        user = registry.find(op_name if not isinstance(op_name, str) else self._name(op_name))
        key = dispatch_key or self.dispatch_key
        if key.startswith("Autograd"):
            user.on_autograd = fn
        elif key == "CompositeImplicitAutograd":
            user.composite = fn
        elif key == "Meta":
            user.fake = fn
        else:
            user.kernels[ANY_DEVICE if key in ("", "CompositeExplicitAutograd") else key.lower()] = fn
        user.redo()

    def _register_fake(self, op_name: str, fn: Rule, _stacklevel: int = 1, *, allow_override: bool = True) -> None:
        """register_fake for an operator of the namespace."""
        registry.register_fake(self._name(op_name), fn, allow_override=allow_override)

    def _destroy(self) -> None:
        """Take the library's operators out of the catalogue."""
        for user in self._made:
            user.destroy()
        self._made.clear()
        if _OWNERS.get(self.ns) is self:
            del _OWNERS[self.ns]

    def _name(self, op_name: str) -> str:
        name = op_name if "::" in op_name else f"{self.ns}::{op_name}"
        if not name.startswith(f"{self.ns}::"):
            raise StateError(f"{op_name} is not in the namespace {self.ns} of this library")
        return name

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> None:
    """Define an operator: `define("mylib::name", "(Tensor x) -> Tensor")`. Raises as Library.define."""
    if not isinstance(qualname, str):
        raise ValueProblem(f"define(qualname, schema): expected qualname to be a str, got {type(qualname)}")
    namespace, separator, name = qualname.partition("::")
    if not separator:
        raise ValueProblem(f"define(qualname, schema): expected a name of the form namespace::name, got {qualname!r}")
    (Library(namespace, "FRAGMENT") if lib is None else lib).define(name + schema, tags=tags)


def impl(qualname: str, types: str | Sequence[str], func: Rule | None = None, *, lib: Library | None = None) -> Any:
    """Register an implementation of an operator for tensors of some devices ("default": of all), or by the keys
    of Library.impl. Usable as a decorator."""
    keys = (types,) if isinstance(types, str) else tuple(types)
    library = lib or Library(qualname.partition("::")[0], "IMPL")

    def enter(function: Rule) -> Rule:
        for key in keys:
            library.impl(qualname, function, "CompositeExplicitAutograd" if key == "default" else key)
        return function

    return enter if func is None else enter(func)
