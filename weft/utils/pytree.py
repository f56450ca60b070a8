"""weft.utils.pytree: functions over nested lists, tuples, dictionaries, named tuples and dataclasses,
by PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from weft.support.errors import ValueProblem
from weft.support.pytree import (
    LEAF,
    LeafSpec,
    TreeSpec,
    flatten,
    is_node,
    map_leaves,
    one_level,
    register,
    steps,
    unflatten,
)

__all__ = [
    "LEAF", "LeafSpec", "TreeSpec", "keystr", "register_pytree_node", "tree_all", "tree_all_only", "tree_any",
    "tree_any_only", "tree_flatten", "tree_flatten_with_path", "tree_iter", "tree_leaves", "tree_map", "tree_map_",
    "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure", "tree_unflatten",
]
IsLeaf = Callable[[Any], bool] | None


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and the structure. is_leaf: what is to be a leaf though it is a container."""
    return flatten(tree) if is_leaf is None else _flatten(tree, is_leaf, [])


def _flatten(tree: Any, is_leaf: Callable[[Any], bool], leaves: list[Any]) -> tuple[list[Any], TreeSpec]:
    if is_leaf(tree) or not is_node(tree):
        leaves.append(tree)
        return leaves, LEAF
    children, spec = one_level(tree)
    return leaves, TreeSpec(spec.kind, spec.meta, tuple(_flatten(c, is_leaf, leaves)[1] for c in children))


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """The inverse of tree_flatten. Raises ValueProblem where the number of leaves is another."""
    if not isinstance(treespec, TreeSpec) and isinstance(leaves, TreeSpec):
        leaves, treespec = treespec, leaves
    leaves = list(leaves)
    if len(leaves) != treespec.size:
        raise ValueProblem(
            f"tree_unflatten: the structure has {treespec.size} leaves, but {len(leaves)} were given: {treespec}"
        )
    return unflatten(leaves, treespec)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves, one after another."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure without the leaves."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree with `func` applied to each leaf, and to those in the same places of other trees
    of the same structure."""
    if not rests and is_leaf is None:
        return map_leaves(func, tree)
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return unflatten([func(*together) for together in zip(leaves, *others, strict=True)], spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Call `func` as tree_map does, for what it does to the leaves. Returns the tree itself."""
    leaves = tree_leaves(tree, is_leaf)
    for together in zip(leaves, *[tree_leaves(rest, is_leaf) for rest in rests], strict=True):
        func(*together)
    return tree


def _is_of(kinds: Any) -> Callable[[Any], bool]:
    """Whether a leaf is of a type, of one of several, or as a function says."""
    if isinstance(kinds, type) or not callable(kinds):
        return lambda leaf: isinstance(leaf, kinds)
    return kinds  # type: ignore[no-any-return]


def tree_map_only(kinds: Any, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree with `func` applied to the leaves of a type (of one of several, or that a function picks)."""
    chosen = _is_of(kinds)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_map_only_(kinds: Any, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Call `func` on the leaves of a type, for what it does to them. Returns the tree itself."""
    chosen = _is_of(kinds)
    return tree_map_(lambda leaf: func(leaf) if chosen(leaf) else None, tree, is_leaf=is_leaf)


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether the predicate holds for any leaf."""
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf))


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether the predicate holds for all leaves."""
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf))


def tree_any_only(kinds: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether the predicate holds for any leaf of a type."""
    return any(pred(leaf) for leaf in filter(_is_of(kinds), tree_leaves(tree, is_leaf)))


def tree_all_only(kinds: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether the predicate holds for all leaves of a type."""
    return all(pred(leaf) for leaf in filter(_is_of(kinds), tree_leaves(tree, is_leaf)))


# ---- leaves and the ways to them
def tree_flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[Any, Any]], TreeSpec]:
    """(way, leaf) in order, and the structure. A way is a tuple of texts of code: `("['x']", "[0]", ".y")`."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return list(zip(_ways(spec), leaves, strict=True)), spec


def _ways(spec: TreeSpec) -> list[tuple[str, ...]]:
    if spec.kind is None:
        return [()]
    return [
        (step, *rest) for step, child in zip(steps(spec), spec.children, strict=True) for rest in _ways(child)
    ]


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree with `func(way, leaf)` in the place of each leaf."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return unflatten([func(*together) for together in zip(_ways(spec), leaves, *others, strict=True)], spec)


def keystr(path: Any) -> str:
    """A way as code: `['x'][0].y`."""
    return "".join(path)


def register_pytree_node(
    cls: type, flatten_fn: Callable[[Any], Any], unflatten_fn: Callable[[Any, Any], Any], *,
    serialized_type_name: str | None = None, to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], Any] | None = None,
) -> None:
    """Make a class a container: flatten_fn(x) -> (children, hashable context), unflatten_fn(children, context) -> x.

    The other arguments are for structures written to files and for ways by the class's own keys; weft does neither, and
    leaves them.
    """

    def parts(tree: Any) -> tuple[list[Any], Any]:
        children, context = flatten_fn(tree)
        return list(children), context

    register(cls, parts, unflatten_fn)
