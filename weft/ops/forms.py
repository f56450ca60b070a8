"""Call forms: what the types of a call's arguments decide (overload, positions, conversions, route) is found out once per combination of types.

A form is kept only where types alone decide the overload; where values could (a 0-dim tensor as a number, say), every call is bound anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import weft.ops.bind as binding
import weft.ops.overrides as overrides
from weft.ops.bind import Mismatch
from weft.ops.op import Op
from weft.ops.route import Route, call, route_of
from weft.ops.schema import Argument

Convert = Callable[[Any], Any]
Plain = tuple[Op, tuple[Any, ...], Route]
Key = tuple[Any, ...]
_NUMBERS = frozenset((int, float, bool))
_shortcuts: list[Callable[[Op, tuple[type, ...]], Route | None]] = []  # shorter routes for some types of arguments


def offer_shortcuts(find: Callable[[Op, tuple[type, ...]], Route | None]) -> None:
    """Let `find` name a shorter route for an operator and the types of its arguments, asked once for each form of call."""
    _shortcuts.append(find)


class Form:
    """How arguments of certain types become the bound arguments of one operator."""

    __slots__ = ("conversions", "gather", "named", "op", "tails")

    def __init__(self, op: Op, gather: int | None, positional: Sequence[Convert | None], named: Sequence[tuple[int, Convert | None]]) -> None:
        self.op, self.gather = op, gather
        defaults = tuple(a.default for a in op.schema.arguments)
        self.tails = tuple(defaults[n:] for n in range(len(defaults) + 1))
        self.conversions = tuple((i, c) for i, c in enumerate(positional) if c is not None)
        self.named = tuple(named)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The bound arguments. Raises Mismatch where a value does not fit after all."""
        gather = self.gather
        values = list(args) if gather is None else [*args[:gather], args[gather:]]
        for i, c in self.conversions:
            values[i] = c(values[i])
        values += self.tails[len(values)]
        if kwargs:
            for (i, convert), value in zip(self.named, kwargs.values(), strict=True):
                values[i] = value if convert is None else convert(value)
        return tuple(values)


class Calls:
    """The overloads of one name with the forms seen so far."""

    __slots__ = ("__weakref__", "forms", "name", "overloads", "plain")

    def __init__(self, name: str, overloads: Sequence[Op]) -> None:
        self.name, self.overloads = name, overloads
        self.plain: dict[tuple[type, ...], Plain] = {}  # arguments that need no conversion
        self.forms: dict[Key, Form] = {}
        overrides.register_table(self)

    def resolve(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Op, tuple[Any, ...]]:
        """The overload that fits, with its bound arguments. Raises ArgumentError that lists the candidates, and overrides.Newcomer."""
        kinds = tuple(map(type, args))
        plain = None if kwargs else self.plain.get(kinds)
        if plain is not None:
            return plain[0], args + plain[1]
        key = (kinds, tuple(kwargs), tuple(map(type, kwargs.values()))) if kwargs else kinds
        form = self.forms.get(key)
        if form is not None:
            try:
                return form.op, form.bind(args, kwargs)
            except Mismatch:
                pass  # the full search has the words
        return self._search(key, args, kwargs)

    def _search(self, key: Key, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Op, tuple[Any, ...]]:
        plain = None if kwargs else self.plain_form(args)
        if plain is not None:
            return plain[0], args + plain[1]
        if overrides.meets(args, kwargs):
            raise overrides.Newcomer(f"{self.name}(): operators take tensors, and an argument has {overrides.NAME}; call weft.{self.name}")
        op, bound = binding.bind_any(self.name, self.overloads, args, kwargs)
        if key not in self.forms:
            made = _form(self.overloads, op, args, kwargs)
            if made is not None:
                self.forms[key] = made
        return op, bound

    def plain_form(self, args: tuple[Any, ...]) -> Plain | None:
        """Overload, defaults and route of arguments that need no conversion; None when one does."""
        kinds = tuple(map(type, args))
        found = self.plain.get(kinds)
        if found is None:
            for op in self.overloads:
                bound = binding.bind_plain(op, args)
                if bound is not None:
                    shortest = next((route for find in _shortcuts if (route := find(op, kinds)) is not None), None)
                    found = (op, bound[len(args) :], shortest or route_of(op, bound) or call)
                    overrides.keep_form(self.plain, kinds, found)
                    break
        return found


def _form(overloads: Sequence[Op], op: Op, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Form | None:
    """The form of a call that was bound to `op`, or None where other values of the same types might be bound otherwise."""
    for earlier in overloads:
        if earlier is op:
            break
        if not _surely_refused(earlier, args, kwargs):
            return None
    gather = _gathers_from(op, args)
    if gather is not None:
        args = (*args[:gather], args[gather:])
    arguments, names = op.schema.arguments, binding.positions_of(op)
    positional = [_conversion(op, arguments[i], type(a)) for i, a in enumerate(args)]
    named = [(names[name], _conversion(op, arguments[names[name]], type(value))) for name, value in kwargs.items()]
    return Form(op, gather, positional, named)


def _gathers_from(op: Op, args: tuple[Any, ...]) -> int | None:
    """From which argument on positional arguments are the items of a list (`x.view(2, 3)`)."""
    limit = binding.positional_count(op)
    last = op.schema.arguments[limit - 1] if limit else None
    if last is None or not last.is_list or len(args) < limit:
        return None
    is_items = type(args[limit - 1]) not in (tuple, list, type(None)) and last.list_size is None
    return limit - 1 if len(args) > limit or is_items else None


def _conversion(op: Op, argument: Argument, kind: type) -> Convert | None:
    if kind in binding.exact_types(op, argument):
        return None
    numbers = op.numbers
    if argument.is_list and kind in (tuple, list):
        if argument.kind == "int" and not argument.element_optional:
            return lambda value: tuple(value) if _are_integers(value) else binding.convert(value, argument, numbers)
        if argument.is_tensor:
            return lambda value: tuple(value) if binding.are_routable(value, argument) else binding.convert(value, argument, numbers)
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
    if any(name not in names for name in kwargs) or (len(args) > limit and not (limit and arguments[limit - 1].is_list)):
        return True
    if len(args) > limit:
        return False
    given = {**dict(enumerate(args)), **{names[name]: value for name, value in kwargs.items()}}
    if any(not a.has_default and i not in given for i, a in enumerate(arguments)):
        return not (limit and arguments[limit - 1].is_list)
    return any(_never_fits(op, arguments[i], type(value)) for i, value in given.items())


def _never_fits(op: Op, argument: Argument, kind: type) -> bool:
    if argument.is_list:
        return False
    if kind in _NUMBERS:
        return argument.kind == "ScalarType" or (argument.kind == "Tensor" and not op.numbers)
    return kind in (tuple, list) and argument.kind in ("Tensor", "ScalarType", "Scalar", "int", "float", "bool")
