"""Pytrees: nested containers of leaves, taken apart and put together again."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from operator import is_
from types import MappingProxyType
from typing import Any


class TreeSpec:
    """The structure of a pytree without its leaves. Equal specs rebuild equal structures; hashable."""

    __slots__ = ("children", "kind", "meta", "size")

    def __init__(self, kind: Any, meta: Any, children: tuple[TreeSpec, ...], size: int | None = None) -> None:
        """size: the number of leaves, where it is known."""
        self.kind, self.meta, self.children = kind, meta, children
        self.size: int = sum([c.size for c in children]) if size is None else size

    @property
    def type(self) -> Any:
        """The class of the container; None for a leaf."""
        return self.kind

    @property
    def context(self) -> Any:
        """What the container has beside its children."""
        return self.meta

    @property
    def num_leaves(self) -> int:
        """How many leaves it has, at all depths."""
        return self.size

    @property
    def num_children(self) -> int:
        """How many children it has."""
        return len(self.children)

    def is_leaf(self) -> bool:
        """Whether it is the structure of a leaf."""
        return self.kind is None

    def holds(self, kind: Any) -> bool:
        """Whether a container of that class is in it."""
        return self.kind is kind or any(child.holds(kind) for child in self.children)

    def unflatten(self, leaves: Any) -> Any:
        """The tree of this structure with these leaves."""
        return unflatten(list(leaves), self)

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
        named = (
            [f"{key}={child!r}" for key, child in zip(_keys(self), self.children, strict=True)] if _keys(self)
            else map(repr, self.children)
        )
        return f"{self.kind.__name__}({', '.join(named)})"


def _keys(spec: TreeSpec) -> tuple[Any, ...]:
    """The keys of a dict, the fields of a dataclass or a named tuple; () for sequences."""
    if spec.kind in _REGISTRY and not issubclass(spec.kind, dict):  # its meta is its own business
        return ()
    if isinstance(spec.meta, tuple):
        return spec.meta[1:] if issubclass(spec.kind, defaultdict) else spec.meta
    return tuple(getattr(spec.kind, "_fields", ()))


def steps(spec: TreeSpec) -> list[str]:
    """How code reaches each child: `['x']`, `.x` or `[0]`."""
    keys = _keys(spec)
    if not keys:
        return [f"[{i}]" for i in range(len(spec.children))]
    return [f"[{key!r}]" if issubclass(spec.kind, dict) else f".{key}" for key in keys]


class LeafSpec(TreeSpec):
    """The structure of a leaf: one object."""

    __slots__ = ()

    def __new__(cls) -> LeafSpec:
        return LEAF if "LEAF" in globals() else object.__new__(cls)

    def __init__(self) -> None:
        super().__init__(None, None, (), 1)


LEAF = LeafSpec()
Nodes = tuple[list[Any], Any]
_REGISTRY: dict[type, tuple[Callable[[Any], Nodes], Callable[[list[Any], Any], Any]]] = {}
# classes whose objects are leaves, so that containers of many of them need no look at each
_LEAF_KINDS: set[type] = {type(None), bool, int, float, complex, str, bytes}


def register(kind: type, flatten: Callable[[Any], Nodes], unflatten: Callable[[list[Any], Any], Any]) -> None:
    """Make `kind` a pytree node: flatten(x) -> (children, hashable meta), unflatten(children, meta) -> x."""
    _REGISTRY[kind] = (flatten, unflatten)
    _LEAF_KINDS.discard(kind)


def register_leaf(kind: type) -> None:
    """Say that objects of `kind` are leaves, which is what they are: to take containers of them apart is cheaper."""
    _LEAF_KINDS.add(kind)


register(list, lambda x: (list(x), None), lambda c, _: c)
register(tuple, lambda x: (list(x), None), lambda c, _: tuple(c))
register(dict, lambda x: (list(x.values()), tuple(x)), lambda c, keys: dict(zip(keys, c, strict=True)))
register(OrderedDict, lambda x: (list(x.values()), tuple(x)), lambda c, keys: OrderedDict(zip(keys, c, strict=True)))


register(
    defaultdict,
    lambda x: (list(x.values()), (x.default_factory, *x)),
    lambda c, meta: defaultdict(meta[0], zip(meta[1:], c, strict=True)),
)
register(deque, lambda x: (list(x), x.maxlen), lambda c, maxlen: deque(c, maxlen))


def registered() -> Mapping[type, tuple[Callable[[Any], Nodes], Callable[[list[Any], Any], Any]]]:
    """The classes that are containers, each with what takes it apart and what puts it together."""
    return MappingProxyType(_REGISTRY)


def _parts(tree: Any) -> tuple[list[Any], Any] | None:
    kind = type(tree)
    entry = _REGISTRY.get(kind)
    if entry is not None:
        return entry[0](tree)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return list(tree), None
    if dataclasses.is_dataclass(kind):
        names = _names_in(tree)
        return [getattr(tree, n) for n in names], names
    if issubclass(kind, (list, tuple, dict)) and _is_bare(tree):
        return (list(tree.values()), tuple(tree)) if issubclass(kind, dict) else (list(tree), None)
    return None


def _names_in(tree: Any) -> tuple[str, ...]:
    """What an object of a dataclass holds: its fields, but for those that nobody has set, and other attributes."""
    names = [f.name for f in dataclasses.fields(tree) if hasattr(tree, f.name)]
    return tuple(dict.fromkeys((*names, *getattr(tree, "__dict__", ()))))


def is_node(tree: Any) -> bool:
    """Whether a value is a container, and no leaf."""
    return _parts(tree) is not None


def _is_bare(tree: Any) -> bool:
    """Whether an object of a subclass of list, tuple or dict holds nothing but its items,
    so that they make another like it."""
    kind = type(tree)
    if not kind.__flags__ & 1 << 9 or getattr(tree, "__dict__", None):  # Py_TPFLAGS_HEAPTYPE: made by a class statement
        return False
    base = next(b for b in (list, tuple, dict) if issubclass(kind, b))
    if kind.__new__ is not base.__new__ or kind.__iter__ is not base.__iter__:
        return False
    return not any(vars(c).get("__slots__") for c in kind.__mro__)


def _made_of(kind: Any, children: list[Any], meta: Any) -> Any:
    """An object of a bare subclass. Its __init__ is not called: it may ask for other things than items."""
    if issubclass(kind, tuple):
        return tuple.__new__(kind, children)
    fresh = kind.__new__(kind)
    if issubclass(kind, list):
        list.extend(fresh, children)
    else:
        for key, child in zip(meta, children, strict=True):
            dict.__setitem__(fresh, key, child)
    return fresh


def _rebuild(kind: Any, children: list[Any], meta: Any) -> Any:
    entry = _REGISTRY.get(kind)
    if entry is not None:
        return entry[1](children, meta)
    if hasattr(kind, "_fields"):
        return kind(*children)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return _made_of(kind, children, meta)
    fresh: Any = object.__new__(kind)
    for name, child in zip(meta, children, strict=True):
        object.__setattr__(fresh, name, child)
    return fresh


def flatten(tree: Any, leaves: list[Any] | None = None, stop: type | None = None) -> tuple[list[Any], TreeSpec]:
    """Leaves in order, and the structure. Anything that is not a registered container, named tuple or dataclass
    is a leaf, and objects of type `stop`."""
    collected: list[Any] = [] if leaves is None else leaves
    return collected, _flatten(tree, collected, stop)


def _flatten(tree: Any, collected: list[Any], stop: type | None) -> TreeSpec:
    """The structure of a tree, whose leaves are added to those that are `collected`."""
    kind = type(tree)
    parts = None if kind is stop or kind in _LEAF_KINDS else _parts(tree)
    if parts is None:
        collected.append(tree)
        return LEAF
    children, meta = parts
    if _LEAF_KINDS.issuperset(map(type, children)):
        collected += children
        return TreeSpec(kind, meta, (LEAF,) * len(children), len(children))
    return TreeSpec(kind, meta, tuple([_flatten(child, collected, stop) for child in children]))


def one_level(tree: Any) -> tuple[list[Any], TreeSpec]:
    """The children of a container as they are, and its structure with leaves in their places;
    a leaf is its own only child."""
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
    return one_built(children, spec)


def one_built(children: list[Any], spec: TreeSpec) -> Any:
    """A container of this structure of its children."""
    return _rebuild(spec.kind, children, spec.meta)


def replaced(
    tree: Any, change: Callable[[Any], Any], stop: type | None = None, containers: dict[int, Any] | None = None
) -> Any:
    """A tree with other leaves. Containers in which none changes stay the objects that they are, and one that stands in
    several places is made anew once. stop: a class whose objects are leaves; containers: those that were made anew, by
    identity, where several trees share them."""
    rebuilt = {} if containers is None else containers

    def visit(value: Any) -> Any:
        parts = None if type(value) is stop else _parts(value)
        if parts is None:
            return change(value)
        if id(value) not in rebuilt:
            children = [visit(child) for child in parts[0]]
            is_same = all(map(is_, children, parts[0]))
            rebuilt[id(value)] = value if is_same else _rebuild(type(value), children, parts[1])
        return rebuilt[id(value)]

    return visit(tree)


def spread(values: Any, spec: TreeSpec) -> list[Any] | None:
    """One number (or None) per leaf of the structure, from a tree of them that may stop early;
    None where they do not fit."""
    if values is None or isinstance(values, int):
        return [values] * spec.size
    parts, part_spec = one_level(values)
    if spec.kind is None:
        return None
    if part_spec.kind is not spec.kind or part_spec.meta != spec.meta or len(parts) != len(spec.children):
        return None
    out: list[Any] = []
    for part, child in zip(parts, spec.children, strict=True):
        numbers = spread(part, child)
        if numbers is None:
            return None
        out.extend(numbers)
    return out


def map_leaves(fn: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with `fn` applied to each leaf."""
    leaves, spec = flatten(tree)
    return unflatten([fn(x) for x in leaves], spec)
