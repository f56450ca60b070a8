"""Call signatures: what the types of a call's arguments decide (overload, positions, conversions, route)
is found out once per combination of types.

A signature is cached only where types alone decide the overload; where values could (a 0-dim tensor as a number, say),
every call is bound anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import weft.ops.bind as binding
import weft.ops.overrides as overrides
from weft.ops.bind import Mismatch
from weft.ops.op import Op
from weft.ops.route import Route, call, route_of
from weft.ops.schema import Argument
from weft.support.errors import ArgumentError
from weft.support.generated import FunctionWriter

Convert = Callable[[Any], Any]
Plain = tuple[Op, tuple[Any, ...], Any]  # overload, defaults at the end, route (None: that of all in-place operators)
Key = tuple[Any, ...]
_NUMBERS = frozenset((int, float, bool))
Entries = Callable[[Op, tuple[Any, ...]], Route | None]
_entries: dict[bool, Entries] = {}  # shorter routes for some classes of arguments; True: of operators in place


def offer_entries(functional: Entries, inplace: Entries) -> None:
    """Let these name a shorter route for an operator and arguments of its own classes, asked once for each signature of
    call.
    """
    _entries.update({False: functional, True: inplace})


_routes: dict[tuple[Any, ...], Route] = {}


def renew_routes(entries: Callable[[Entries, bool], Entries]) -> None:
    """Let the entries be others from now on, for all signatures: `entries(those that are offered, whether in place)`.
    """
    _entries.update({inplace: entries(offered, inplace) for inplace, offered in _entries.items()})
    _routes.clear()
    overrides.forget_signatures()


def shortest_route(op: Op, args: tuple[Any, ...]) -> Route:
    """How a functional call that nobody is asked about goes: by an entry where one is offered for arguments of these
    classes, else as `call` does.
    """
    key = (op, *map(type, args))
    route = _routes.get(key)
    if route is None:
        offered = _entries[False](op, args) if _entries else None
        if offered is None:
            return call
        route = _routes[key] = offered
    return route


class CallSignature(NamedTuple):
    """How arguments of certain types become the bound arguments of one operator: `bind(args, kwargs)`, which raises
    Mismatch where a value does not fit after all. route: where the bound arguments go; None if each call's name it.
    """

    op: Op
    bind: Callable[[tuple[Any, ...], Mapping[str, Any]], tuple[Any, ...]]
    keeps_classes: bool  # whether the bound arguments of all calls have the same classes
    route: Route | None = None


def _binder(
    op: Op, gather: int | None, positional: Sequence[Convert | None], named: Sequence[tuple[int, Convert | None]]
) -> Callable[..., tuple[Any, ...]]:
    """`bind` of a signature. gather: the argument from which on positional ones are the items of a list;
    named: positions of those that come by name.
    """
    arguments = op.schema.arguments
    at = {i: (f"a{i}", convert) for i, convert in enumerate(positional)} | {
        i: (f"n{i}", convert) for i, convert in named
    }
    scope: dict[str, Any] = {f"default{i}": a.default for i, a in enumerate(arguments) if i not in at}
    scope |= {f"convert{i}": convert for i, (_, convert) in at.items() if convert is not None}
    values = [
        f"default{i}" if i not in at else f"convert{i}({at[i][0]})" if at[i][1] else at[i][0]
        for i in range(len(arguments))
    ]
    taken = [f"a{i}, " for i in range(len(positional) if gather is None else gather)]
    lines = [
        f"({''.join(taken)}) = args" if gather is None else f"({''.join(taken)}*_) = args; a{gather} = args[{gather}:]"
    ]
    if not taken:
        lines[0] = "pass" if gather is None else f"a{gather} = args"
    if named:
        lines.append(f"({''.join(f'n{i}, ' for i, _ in named)}) = kwargs.values()")
    lines.append(f"return ({''.join(v + ', ' for v in values)})")
    code = FunctionWriter("signature", "bind(args, kwargs)", **scope)
    code.lines += lines
    return code.function()


class Calls:
    """The overloads of one name with the signatures seen so far."""

    __slots__ = ("__weakref__", "is_inplace", "name", "overloads", "plain", "signatures")

    def __init__(self, name: str, overloads: Sequence[Op], is_inplace: bool = False) -> None:
        self.name, self.overloads, self.is_inplace = name, overloads, is_inplace
        self.plain: dict[
            Any, Plain
        ] = {}  # arguments that need no conversion, by their classes (one argument's class is a key itself)
        self.signatures: dict[Key, CallSignature] = {}
        overrides.register_table(self)

    def resolve(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Op, tuple[Any, ...], Route | None]:
        """The overload that fits, with its bound arguments and their route if it is known. Raises ArgumentError that
        lists the candidates, and overrides.FirstOverride.
        """
        kinds = tuple(map(type, args))
        plain = None if kwargs else self.plain.get(kinds[0] if len(kinds) == 1 else kinds)
        if plain is not None:
            return plain[0], args + plain[1], plain[2]
        key = (kinds, tuple(kwargs), tuple(map(type, kwargs.values()))) if kwargs else kinds
        signature = self.signatures.get(key)
        if signature is not None:
            try:
                return signature.op, signature.bind(args, kwargs), signature.route
            except Mismatch:
                pass  # the full search has the words
        return self._search(key, args, kwargs)

    def _search(
        self, key: Key, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Op, tuple[Any, ...], Route | None]:
        plain = None if kwargs else self.plain_signature(args)
        if plain is not None:
            return plain[0], args + plain[1], plain[2]
        if overrides.meets(args, kwargs):
            raise overrides.FirstOverride(
                f"{self.name}(): operators take tensors, and an argument has {overrides.NAME}; call weft.{self.name}"
            )
        try:
            op, bound = binding.bind_any(self.name, self.overloads, args, kwargs)
        except ArgumentError:
            newer = binding.in_newer_order(self.name, self.overloads, args, kwargs)
            if newer is None:
                raise
            return self.resolve(*newer)
        route = None
        if key not in self.signatures and not overrides.is_mode_on():
            form = _signature(self.overloads, op, args, kwargs)
            if form is not None:
                asks = any(map(overrides.takes_over, map(type, (*args, *kwargs.values()))))
                route = self._entry(op, bound) if form.keeps_classes and not asks else None
                self.signatures[key] = form._replace(route=route)
        return op, bound, route

    def _entry(self, op: Op, bound: tuple[Any, ...]) -> Route | None:
        find = _entries.get(self.is_inplace)
        return None if find is None else find(op, bound)

    def plain_signature(self, args: tuple[Any, ...]) -> Plain | None:
        """Overload, defaults and route of arguments that need no conversion; None when one does."""
        kinds = tuple(map(type, args))
        plain = self.plain.get(kinds[0] if len(kinds) == 1 else kinds)
        if plain is None:
            for op in self.overloads:
                bound = binding.bind_plain(op, args)
                if bound is not None:
                    plain = (
                        op,
                        bound[len(args) :],
                        self._entry(op, bound) or (None if self.is_inplace else route_of(op, bound) or call),
                    )
                    overrides.cache_signature(self.plain, kinds, plain)
                    break
        return plain


def _signature(
    overloads: Sequence[Op], op: Op, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> CallSignature | None:
    """The signature of a call that was bound to `op`, or None where other values of these types might
    be bound otherwise."""
    for earlier in overloads:
        if earlier is op:
            break
        if not _surely_refused(earlier, args, kwargs):
            return None
    gather = _gathers_from(op, args)
    items = () if gather is None else args[gather:]
    if gather is not None:
        args = (*args[:gather], items)
    arguments, names = op.schema.arguments, binding.positions_of(op)
    positional = [_conversion(op, arguments[i], type(a)) for i, a in enumerate(args)]
    if gather is not None and arguments[gather].kind == "int" and {*map(type, items)} == {int}:
        positional[gather] = None  # the classes of the items are part of the signature
    named = [(names[name], _conversion(op, arguments[names[name]], type(value))) for name, value in kwargs.items()]
    converted = [i for i, c in (*enumerate(positional), *named) if c is not None]
    return CallSignature(op, _binder(op, gather, positional, named), all([arguments[i].is_list for i in converted]))


def _gathers_from(op: Op, args: tuple[Any, ...]) -> int | None:
    """From which argument on positional arguments are the items of a list (`x.view(2, 3)`)."""
    limit = binding.positional_count(op)
    last = op.schema.arguments[limit - 1] if limit else None
    if last is None or not last.is_list or len(args) < limit:
        return None
    is_items = type(args[limit - 1]) not in (tuple, list, type(None)) and last.list_size is None
    return limit - 1 if len(args) > limit or is_items else None


def _conversion(op: Op, argument: Argument, kind: type) -> Convert | None:
    if kind in binding.exact_types(op, argument) or (
        argument.is_tensor and not argument.is_list and binding.is_tensor_class(kind)
    ):
        return None
    numbers = op.numbers
    if argument.is_list and kind in (tuple, list):
        if argument.kind == "int" and not argument.element_optional:
            return lambda value: tuple(value) if _are_integers(value) else binding.convert(value, argument, numbers)
        if argument.is_tensor:
            return lambda value: (
                tuple(value) if binding.are_routable(value, argument) else binding.convert(value, argument, numbers)
            )
    if argument.is_list and argument.kind == "int" and kind is int:
        count = argument.list_size or 1
        return lambda value: (value,) * count
    return lambda value: binding.convert(value, argument, numbers)


def _are_integers(values: Sequence[Any]) -> bool:
    for v in values:  # noqa: SIM110  for a few values a loop is faster than all()
        if type(v) is not int:
            return False
    return True


def _surely_refused(op: Op, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether the types alone keep a call from this overload."""
    arguments, names = op.schema.arguments, binding.positions_of(op)
    limit = binding.positional_count(op)
    if any(name not in names for name in kwargs) or (
        len(args) > limit and not (limit and arguments[limit - 1].is_list)
    ):
        return True
    if len(args) > limit:
        return False
    passed = {**dict(enumerate(args)), **{names[name]: value for name, value in kwargs.items()}}
    if any(not a.has_default and i not in passed for i, a in enumerate(arguments)):
        return not (limit and arguments[limit - 1].is_list)
    return any(_never_fits(op, arguments[i], type(value)) for i, value in passed.items())


def _never_fits(op: Op, argument: Argument, kind: type) -> bool:
    if argument.is_list:
        return False
    if kind in _NUMBERS:
        return argument.kind == "ScalarType" or (argument.kind == "Tensor" and not op.numbers)
    return kind in (tuple, list) and argument.kind in ("Tensor", "ScalarType", "Scalar", "int", "float", "bool")
