"""Containers that stand in several places of what a program gives: each is made once.

A container is numbered when it is whole, so that what holds it comes behind it; the places where it stands again have
its number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.record.wrappers import Desugared
from weft.support import pytree


class Again:
    """A leaf that is a container made elsewhere in the same tree."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def is_numbered(kind: Any) -> bool:
    """Whether it matters which container of this class is where."""
    return not issubclass(kind, Desugared)


def count(container: Any, numbers: dict[Any, int]) -> None:
    """Give a container that is whole the next number; `numbers` has them by identity, and under None the last one. One
    that stands here for the second time keeps its first."""
    number = numbers[None] = numbers.get(None, -1) + 1
    numbers.setdefault(id(container), number)


def joined(leaves: list[Any], spec: pytree.TreeSpec) -> Any:
    """A tree of these leaves, in which what is `Again` is the container that it stands for."""
    return _built(iter(leaves), spec, [])


def _built(leaves: Iterator[Any], spec: pytree.TreeSpec, containers: list[Any]) -> Any:
    if spec.kind is None:
        leaf = next(leaves)
        return containers[leaf.number] if type(leaf) is Again else leaf
    children = [_built(leaves, child, containers) for child in spec.children]
    whole = pytree.one_built(children, spec)
    if is_numbered(spec.kind):
        containers.append(whole)
    return whole
