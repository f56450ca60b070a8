"""functionalize: a function without in-place operators, as its callers below see it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.autograd.views import path_from_base
from weft.func.arguments import map_tensors
from weft.functionalizer.operators import AS_STRIDED
from weft.functionalizer.writes import Path, memory_as
from weft.layers.dense_memory import over
from weft.layers.transforms.functional import Functional, FunctionalLevel
from weft.layers.transforms.functional_storage import whole_memory
from weft.runtime.storage import root_of
from weft.support.errors import StateError
from weft.tensor.dense import has_memory, is_dense
from weft.tensor.modes import active_trace, as_they_are, modes, set_grad_enabled
from weft.tensor.tensor import Tensor
from weft.types.dims import product

OPTIONS = ("mutations", "mutations_and_views")


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """A function that computes what `func` computes without in-place operators (and, with remove="mutations_and_views",
    with copies for views).

    Arguments that func writes are written once, at the end; those that share memory still do inside.
    Outputs that alias an argument, or each other, still do.
    Raises StateError for another `remove`.
    """
    if remove not in OPTIONS:
        raise StateError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            f"{list(OPTIONS)}"
        )

    @functools.wraps(func)
    def functional(*args: Any, **kwargs: Any) -> Any:
        trace = active_trace()
        if trace is not None:
            return trace.transform("weft.func.functionalize", func, {"remove": remove}, args, kwargs)
        args, kwargs = as_they_are((args, kwargs))
        with FunctionalLevel(remove == "mutations_and_views") as level:
            inside = _enter(level, (args, kwargs))
            payloads: dict[int, Any] = {key: t._data for key, (_, t) in inside.items()}
            arguments = [map_tensors(lambda t: inside[id(t)][1], a) for a in (*args, *kwargs.values())]
            result = func(*arguments[: len(args)], **dict(zip(kwargs, arguments[len(args) :], strict=True)))
        moved = [(tensor, t) for tensor, t in inside.values() if t._data is not payloads[id(tensor)]]
        storages = {id(data.storage): data.storage for data in payloads.values()}
        originals = {id(t): tensor for tensor, t in inside.values()}
        for storage in storages.values():
            storage.put_back()
        bases: dict[int, Tensor] = {}
        out = map_tensors(lambda t: originals[id(t)] if id(t) in originals else level.leave(t, bases), result)
        left = [(tensor, payloads[id(tensor)], t._data, level.leave(t, bases)) for tensor, t in moved]
        for each in left:
            _move(*each)
        return out

    return functional


def _move(tensor: Tensor, before: Functional, after: Functional, shown: Tensor) -> None:
    """Let an argument show what it came to show inside: its sizes or strides were changed in place."""
    if after.storage is not before.storage:
        if tensor.requires_grad:
            tensor.data = shown
        else:
            tensor.set_(shown)
        return
    shared, version = len(before.path), tensor.storage().version
    with set_grad_enabled(modes.grad and not tensor.is_leaf):
        further = after.path[shared:]
        steps = [(f"{op.base}_", args) for op, args, _ in further]
        is_free = any([op.view is not None and op.view.is_free for op, _, _ in further])  # (its offset is the base's)
        if after.path[:shared] == before.path and not is_free and all([hasattr(tensor, name) for name, _ in steps]):
            for name, args in steps:
                getattr(tensor, name)(*args)
        else:
            g = after.geometry()
            if (has_memory(tensor) and not is_dense(tensor)) or after.storage.is_short_of(g, after.dtype.itemsize):
                tensor._data = over(tensor, after.dtype, g)._data
            else:
                tensor.as_strided_(g.dims, g.strides, g.offset)
    tensor.storage().version = version  # the elements are what they were when the function used them


def _enter(level: FunctionalLevel, arguments: Any) -> dict[int, tuple[Tensor, Tensor]]:
    """For each tensor among the arguments, by id, itself and what stands for it inside;
    those that share memory share a storage."""
    families: dict[int, list[Tensor]] = {}

    def note(tensor: Tensor) -> Tensor:
        family = families.setdefault(_memory_of(tensor), [])
        if all(tensor is not t for t in family):
            family.append(tensor)
        return tensor

    for value in (*arguments[0], *arguments[1].values()):
        map_tensors(note, value)
    inside: dict[int, tuple[Tensor, Tensor]] = {}
    for family in families.values():
        for base, group in _with_bases(family):
            for (_, tensor), stand_in in zip(group, level.enter(base, group), strict=True):
                inside[id(tensor)] = (tensor, stand_in)
    return inside


def _memory_of(tensor: Tensor) -> int:
    """What the aliases of a tensor have in common."""
    return id(root_of(tensor._data)) if is_dense(tensor) else id(tensor.storage())


def _with_bases(family: list[Tensor]) -> list[tuple[Tensor, list[tuple[Path, Tensor]]]]:
    """Tensors that share memory, as paths from one base."""
    if len(family) == 1:
        return [(family[0], [((), family[0])])]
    roots = {id(t if t._view is None else t._view.base): t if t._view is None else t._view.base for t in family}
    if len(roots) == 1:
        base = next(iter(roots.values()))
        return [(base, [(() if t is base else path_from_base(t), t) for t in family])]
    if any(not is_dense(t) for t in family):
        return [(t, [((), t)]) for t in family]
    base = _covering(family)
    return [(base, [(() if t is base else _path_within(base, t), t) for t in family])]


def _covering(family: list[Tensor]) -> Tensor:
    """A tensor that shows all of the memory, best one with a history."""
    whole = [t for t in family if t.is_contiguous() and t._data.nbytes == t.storage().nbytes]
    wanted = [t for t in whole if t.requires_grad] or whole
    if wanted:
        return wanted[0]
    row = whole_memory(family[0])
    assert row is not None
    return row


def _path_within(base: Tensor, tensor: Tensor) -> Path:
    """The path from all of the memory to a tensor that shows a part of it."""
    g = tensor.geometry()
    place = (AS_STRIDED, (g.dims, g.strides, tensor.geometry().offset), 0)
    return (*memory_as(base.dtype, tensor.dtype, product(base.dims)), place)
