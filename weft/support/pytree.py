"""Pytrees: nested containers of leaves, taken apart and put together again."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from typing import Any


class TreeSpec:
    """The structure of a pytree without its leaves. Equal specs rebuild equal structures; hashable."""

    __slots__ = ("children", "kind", "meta", "size")

    def __init__(self, kind: Any, meta: Any, children: tuple[TreeSpec, ...]) -> None:
        self.kind, self.meta, self.children = kind, meta, children
        self.size: int = 1 if kind is None else sum(c.size for c in children)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TreeSpec)
            and self.kind is other.kind
            and self.meta == other.meta
            and self.children == other.children
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.meta, self.children))

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        return f"{self.kind.__name__}({', '.join(map(repr, self.children))})"


LEAF = TreeSpec(None, None, ())
Nodes = tuple[list[Any], Any]
_REGISTRY: dict[type, tuple[Callable[[Any], Nodes], Callable[[list[Any], Any], Any]]] = {}


def register(kind: type, flatten: Callable[[Any], Nodes], unflatten: Callable[[list[Any], Any], Any]) -> None:
    """Make `kind` a pytree node: flatten(x) -> (children, hashable meta), unflatten(children, meta) -> x."""
    _REGISTRY[kind] = (flatten, unflatten)


register(list, lambda x: (list(x), None), lambda c, _: c)
register(tuple, lambda x: (list(x), None), lambda c, _: tuple(c))
register(dict, lambda x: (list(x.values()), tuple(x)), lambda c, keys: dict(zip(keys, c, strict=True)))
register(OrderedDict, lambda x: (list(x.values()), tuple(x)), lambda c, keys: OrderedDict(zip(keys, c, strict=True)))


def _parts(tree: Any) -> tuple[list[Any], Any] | None:
    kind = type(tree)
    entry = _REGISTRY.get(kind)
    if entry is not None:
        return entry[0](tree)
    if isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return list(tree), None
    if dataclasses.is_dataclass(kind):
        names = tuple(f.name for f in dataclasses.fields(kind))
        return [getattr(tree, n) for n in names], names
    return None


def _rebuild(kind: Any, children: list[Any], meta: Any) -> Any:
    entry = _REGISTRY.get(kind)
    if entry is not None:
        return entry[1](children, meta)
    if hasattr(kind, "_fields"):
        return kind(*children)
    fresh = object.__new__(kind)
    for name, child in zip(meta, children, strict=True):
        object.__setattr__(fresh, name, child)
    return fresh


def flatten(tree: Any, leaves: list[Any] | None = None) -> tuple[list[Any], TreeSpec]:
    """Leaves in order, and the structure. Anything that is not a registered container, named tuple or dataclass is a leaf."""
    found: list[Any] = [] if leaves is None else leaves
    parts = _parts(tree)
    if parts is None:
        found.append(tree)
        return found, LEAF
    children, meta = parts
    return found, TreeSpec(type(tree), meta, tuple(flatten(c, found)[1] for c in children))


def one_level(tree: Any) -> tuple[list[Any], TreeSpec]:
    """The children of a container as they are, and its structure with leaves in their places; a leaf is its own only child."""
    parts = _parts(tree)
    if parts is None:
        return [tree], LEAF
    children, meta = parts
    return children, TreeSpec(type(tree), meta, (LEAF,) * len(children))


def unflatten(leaves: list[Any], spec: TreeSpec) -> Any:
    """The inverse of flatten."""
    if spec.kind is None:
        return leaves[0]
    children, at = [], 0
    for child in spec.children:
        children.append(unflatten(leaves[at : at + child.size], child))
        at += child.size
    return _rebuild(spec.kind, children, spec.meta)


def map_leaves(fn: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with `fn` applied to each leaf."""
    leaves, spec = flatten(tree)
    return unflatten([fn(x) for x in leaves], spec)
