"""weft.utils._pytree: PyTorch's name for weft.utils.pytree, with the functions that take its own containers apart."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from weft.support.pytree import is_node, registered
from weft.utils.pytree import (  # noqa: F401  (shown here)
    LEAF,
    LeafSpec,
    TreeSpec,
    keystr,
    register_pytree_node,
    tree_all,
    tree_all_only,
    tree_any,
    tree_any_only,
    tree_flatten,
    tree_flatten_with_path,
    tree_iter,
    tree_leaves,
    tree_map,
    tree_map_,
    tree_map_only,
    tree_map_only_,
    tree_map_with_path,
    tree_structure,
    tree_unflatten,
)

Context = Any
PyTree = Any
DumpableContext = Any
FlattenFunc = Callable[[PyTree], tuple[list[Any], Context]]
UnflattenFunc = Callable[[Iterable[Any], Context], PyTree]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]
BUILTIN_TYPES = frozenset({tuple, list, dict, OrderedDict, defaultdict, deque})
_register_pytree_node = register_pytree_node


class NodeDef(NamedTuple):
    """A class that is a container, and the functions that take it apart and put it together."""

    type: type
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc


class _Nodes(Mapping[type, NodeDef]):
    """The containers there are, by class: as many as are registered when it is asked."""

    def __getitem__(self, key: type) -> NodeDef:
        if key is namedtuple:
            return NodeDef(key, _namedtuple_flatten, _namedtuple_unflatten)
        flatten, unflatten = registered()[key]
        return NodeDef(key, flatten, lambda children, context: unflatten(list(children), context))

    def __iter__(self) -> Iterator[type]:
        return iter(registered())

    def __len__(self) -> int:
        return len(registered())


SUPPORTED_NODES = _Nodes()


def _get_node_type(tree: Any) -> Any:
    kind = type(tree)
    return namedtuple if kind not in registered() and isinstance(tree, tuple) and hasattr(kind, "_fields") else kind


def _is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    return (is_leaf is not None and is_leaf(tree)) or not is_node(tree)


def _list_flatten(d: list[Any]) -> tuple[list[Any], Context]:
    return d, None


def _list_unflatten(values: Iterable[Any], context: Context) -> list[Any]:
    return list(values)


def _tuple_flatten(d: tuple[Any, ...]) -> tuple[list[Any], Context]:
    return list(d), None


def _tuple_unflatten(values: Iterable[Any], context: Context) -> tuple[Any, ...]:
    return tuple(values)


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[str, Any]], Context]:
    return [(f"[{key!r}]", value) for key, value in d.items()], list(d)


_odict_flatten = _dict_flatten


def _odict_unflatten(values: Iterable[Any], context: Context) -> OrderedDict[Any, Any]:
    return OrderedDict(zip(context, values, strict=True))


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d), type(d)


def _namedtuple_unflatten(values: Iterable[Any], context: Context) -> Any:
    return context(*values)


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of the arguments of a call."""
    return [leaf for tree in (*args, *kwargs.values()) for leaf in tree_leaves(tree)]
