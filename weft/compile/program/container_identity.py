"""Which of the containers that a call brings are one object: asked where the function compares objects by `is` or `id`,
since a program stands others in for them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from weft.compile.program.bound_state import BoundState
from weft.compile.program.call_leaves import CallLeaves
from weft.programs.store import Miss
from weft.record.wrappers import Desugared
from weft.support import pytree


def paths_of(
    tree: Any, path: tuple[int, ...] = (), stand_ins: Container[int] = ()
) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """The containers of a tree, and objects with these ids, each with the numbers of the children that lead to it."""
    children, spec = pytree.one_level(tree)
    if spec.kind is not None or id(tree) in stand_ins:
        yield tree, path
    if spec.kind is not None:
        for number, child in enumerate(children):
            yield from paths_of(child, (*path, number), stand_ins)


def container_at(tree: Any, path: Sequence[int]) -> Any:
    """The container in this place of a tree."""
    for number in path:
        tree = tree[number] if type(tree) in (list, tuple) else pytree.one_level(tree)[0][number]
    return tree


def containers_of(leaves: list[Any], bound: BoundState) -> list[list[Any]]:
    """The containers of a call, each before what it holds: those of its arguments, and of each bound place."""
    arguments = leaves.tree if type(leaves) is CallLeaves else ()
    trees = [arguments, *[place.slot.get() for place in bound.places]]
    return [[container for container, _ in paths_of(tree)] for tree in trees]


def pattern_of(containers: Iterable[list[Any]]) -> tuple[int, ...]:
    """For each container the first place of the same object. Empty tuples, which Python shares, count as others."""
    first: dict[int, int] = {}
    each = enumerate(chain.from_iterable(containers))
    return tuple([i if is_empty_tuple(c) else first.setdefault(id(c), i) for i, c in each])


def is_empty_tuple(value: Any) -> bool:
    """Whether it is one of Python's own."""
    return type(value) is tuple and not value


def built(leaves: list[Any], specs: Sequence[pytree.TreeSpec], pattern: Sequence[int]) -> list[Any]:
    """Trees of these structures, one after another, in which containers are the same object where the pattern, if
    there is one, says so."""
    containers: list[Any] = []

    def tree(spec: pytree.TreeSpec, at: int) -> Any:
        if spec.kind is None:
            return leaves[at]
        if spec.kind is Desugared:  # a wrapper, which is no container for the caller
            return pytree.unflatten(leaves[at : at + spec.size], spec)
        number = len(containers)
        containers.append(None)
        children = []
        for child in spec.children:
            children.append(tree(child, at))
            at += child.size
        first = pattern[number] if pattern else number
        containers[number] = containers[first] if first < number else pytree.one_built(children, spec)
        return containers[number]

    trees, start = [], 0
    for spec in specs:
        trees.append(tree(spec, start))
        start += spec.size
    return trees


class IdentityGuard:
    """A call's containers are the same objects as each other where those of the captured call were, and none of them is
    one that the program holds on to. held: the latter."""

    def __init__(self, pattern: tuple[int, ...], held: Iterable[Any]) -> None:
        self.pattern = pattern
        self.held = {id(value): value for value in held}

    def miss(self, leaves: list[Any], bound: BoundState) -> Miss | None:
        """What is not as it was."""
        containers = containers_of(leaves, bound)
        is_its_own = self.held.keys().isdisjoint(map(id, chain.from_iterable(containers)))
        if is_its_own and pattern_of(containers) == self.pattern:
            return None
        return Miss(
            "which containers are the same object has changed", 4,
            remedy="give each argument a list or dict of its own at each call",
        )
