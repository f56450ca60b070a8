"""weft.utils.pytree: functions over nested lists, tuples, dictionaries, named tuples and dataclasses,
by PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.support.pytree import LEAF, TreeSpec, flatten, map_leaves, register, unflatten

__all__ = [
    "LEAF", "TreeSpec", "register_pytree_node", "tree_all", "tree_any", "tree_flatten", "tree_leaves", "tree_map",
    "tree_map_only", "tree_structure", "tree_unflatten",
]


def tree_flatten(tree: Any) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and the structure."""
    return flatten(tree)


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """The inverse of tree_flatten."""
    return unflatten(list(leaves), treespec)


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves in order."""
    return flatten(tree)[0]


def tree_structure(tree: Any) -> TreeSpec:
    """The structure without the leaves."""
    return flatten(tree)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any) -> Any:
    """The tree with `func` applied to each leaf, and to those in the same places of other trees
    of the same structure."""
    if not rests:
        return map_leaves(func, tree)
    leaves, spec = flatten(tree)
    return unflatten([func(*together) for together in zip(leaves, *[flatten(r)[0] for r in rests], strict=True)], spec)


def tree_map_only(kinds: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with `func` applied to the leaves of a type (or of one of several)."""
    return map_leaves(lambda leaf: func(leaf) if isinstance(leaf, kinds) else leaf, tree)


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether the predicate holds for any leaf."""
    return any(pred(leaf) for leaf in flatten(tree)[0])


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether the predicate holds for all leaves."""
    return all(pred(leaf) for leaf in flatten(tree)[0])


def register_pytree_node(cls: type, flatten_fn: Callable[[Any], Any], unflatten_fn: Callable[[Any, Any], Any]) -> None:
    """Make a class a container: flatten_fn(x) -> (children, hashable context), unflatten_fn(children, context) -> x."""
    register(cls, lambda x: (list(flatten_fn(x)[0]), flatten_fn(x)[1]), unflatten_fn)
