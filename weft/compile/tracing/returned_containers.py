"""Containers in what a program gives, be it returned or assigned: those that were there before the call are the ones
that the caller gets, and one that stands in several places is one."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any

from weft import guards
from weft.compile.program.again import Again, count, is_numbered
from weft.compile.program.container_identity import is_empty_tuple
from weft.record.numbers.sym_float import SymFloat
from weft.record.restart import Restart
from weft.record.symbolic import SymbolicPayload
from weft.record.tracer_leaks import held_symbol
from weft.record.wrappers import is_whole_outside
from weft.support import pytree
from weft.support.errors import CaptureError
from weft.support.pytree import TreeSpec
from weft.support.reachable import reachable
from weft.tensor.tensor import Tensor
from weft.types.sym import SymInt

# what bound places of Python's state hold when the call begins: the place, each container and stand-in of an object
# there, and the numbers of the children that lead to it
Held = Sequence[tuple[guards.Slot, Any, tuple[int, ...]]]


class Older:
    """An object that existed before the call, given as it is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Callers:
    """A container, or an object with a stand-in, among the call's arguments, or a container in a place of Python's
    state that the program takes anew at every call, by the way that leads to it."""

    __slots__ = ("path", "slot")

    def __init__(self, path: tuple[int, ...], slot: guards.Slot | None = None) -> None:
        self.path, self.slot = path, slot


def callers_in(arguments: Iterable[tuple[Any, tuple[int, ...]]]) -> dict[int, Callers]:
    """The containers of a call's arguments, and objects that stand-ins are for, as the function got them, by
    identity."""
    return {id(c): Callers(path) for c, path in arguments if path and not is_empty_tuple(c)}


def containers_in(tree: Any) -> Iterator[Any]:
    """The containers that a tree is made of, each once."""
    for value in reachable([tree], _children):
        if pytree.is_node(value):
            yield value


def _children(value: Any) -> list[Any]:
    return pytree.one_level(value)[0] if pytree.is_node(value) else []


class Before:
    """The containers that were there before a call: those of its arguments (as the function got them), those in places
    that are bound, and what else the function has come upon."""

    def __init__(
        self, arguments: Iterable[tuple[Any, tuple[int, ...]]], held: Held, is_older: Callable[[object], bool],
        stand_ins: Container[int],
    ) -> None:
        """arguments: the containers, and stand-ins of objects, each with the way that led to it when the call began;
        stand_ins: the ids of these."""
        self.is_older = is_older
        self.callers = callers_in(arguments)
        self.inputs: dict[int, Any] = {}
        for slot, container, path in held:
            is_inner = isinstance(container, tuple) or id(slot.holder) in stand_ins
            if (is_inner and not is_empty_tuple(container)) or id(container) in stand_ins:
                self.callers.setdefault(id(container), Callers(path, slot))
            self.inputs[id(container)] = slot.key


def _has_symbol(key: Any) -> bool:
    """Whether a key of a dict, or a tuple of keys, is or holds a tensor that stands for one of the call's."""
    if isinstance(key, tuple):
        return any(map(_has_symbol, key))
    return isinstance(key, Tensor) and type(key._data) is SymbolicPayload


def plain_key(key: Any) -> Any:
    """A key of a dict, or a tuple of keys, with numbers where it has symbols: a dict has asked for the hash of each
    key, so that the program holds for this number alone."""
    if type(key) is SymInt:
        return int(key)
    if type(key) is SymFloat:
        return float(key)
    return tuple(map(plain_key, key)) if type(key) is tuple else key


class ContainerWalk:
    """The walk over something that a program gives. numbers: of the containers made so far (again.py); identical: the
    bound places whose containers must be the very ones. (No function within another: a cycle would keep what was
    observed alive, and with it what the program asks about, be it by a weak reference.)"""

    def __init__(self, before: Before, numbers: dict[Any, int]) -> None:
        self.before, self.numbers = before, numbers
        self.identical: set[Any] = set()
        self._within: set[int] = set()  # containers around the one that is looked at

    def visit(self, value: Any) -> Any:
        """What stands for a part of it: in place of containers that are older than the call, and of those that are
        there already, a leaf. Raises CaptureError for a container that holds itself."""
        if isinstance(value, Tensor):
            return self.tensor(value)
        if id(value) in self.before.callers:
            return self.before.callers[id(value)]
        children, spec = pytree.one_level(value)
        if spec.kind is None:
            return self.leaf(value)
        is_container = is_numbered(spec.kind)
        if id(value) in self.before.inputs and not isinstance(value, tuple):
            self.identical.add(self.before.inputs[id(value)])
        if is_container and self.before.is_older(value):
            return Older(value)
        if id(value) in self.numbers:
            return Again(self.numbers[id(value)])
        if id(value) in self._within:
            raise self.refuse(
                f"a {type(value).__name__} that holds itself",
                f"Give a tuple, or a copy of the {type(value).__name__}.",
            )
        self._within.add(id(value))
        if _has_symbol(spec.meta):
            raise self.refuse(
                f"a {type(value).__name__} with a tensor of this call as a key",
                "Let keys be numbers or texts, and keep the tensors as values.",
            )
        keys = TreeSpec(spec.kind, plain_key(spec.meta), spec.children)
        whole = pytree.one_built([self.visit(child) for child in children], keys)
        self._within.discard(id(value))
        if is_container:
            count(value, self.numbers)
        return whole

    def tensor(self, value: Tensor) -> Any:
        """What stands for a tensor: for one of a class, older than the call, itself. (Others are taken apart.)"""
        return Older(value) if is_whole_outside(value) and self.before.is_older(value) else value

    def leaf(self, value: Any) -> Any:
        """What stands for an object that is no container: for one that is older than the call and holds now what the
        function has put there, itself."""
        holds_symbol = not isinstance(value, (SymInt, SymFloat)) and held_symbol(value) is not None
        return Older(value) if holds_symbol and self.before.is_older(value) else value

    def refuse(self, what: str, remedy: str) -> CaptureError:
        """The error for what a program cannot make anew at every call."""
        return CaptureError(f"the compiled function returns {what}, which later calls would not make anew. {remedy}")


def identical_in(walks: Sequence[ContainerWalk]) -> None:
    """Raises Restart where some containers stand for what a place holds: those must be the very ones."""
    identical = {key for walk in walks for key in walk.identical}
    if identical:
        raise Restart(identical=identical)


def with_older(result: Any, before: Before, numbers: dict[Any, int]) -> Any:
    """The result with leaves in place of containers that are older than the call, and of those that it has already.
    numbers: takes up the containers that are made (again.py).

    Raises Restart for a container that stands for what a place holds: that must be the very one. Raises CaptureError
    for one that holds itself.
    """
    walk = ContainerWalk(before, numbers)
    tree = walk.visit(result)
    identical_in([walk])
    return tree
