"""Arguments of calls on lazy tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from weft.lazy.payload import LazyPayload
from weft.lazy.values import Deferred
from weft.ops.op import Op
from weft.tensor.backend import Args
from weft.tensor.tensor import Tensor, tensor_around


@cache
def has_indices(op: Op) -> bool:
    """Whether a list among the arguments is of indices, some of which are left out."""
    return any([a.element_optional for a in op.schema.arguments])


@cache
def has_value(op: Op) -> bool:
    """Whether a program brings the operator's results: it acts on nothing outside. (What draws is opened, but for the
    user's operators: these draw at their call.)"""
    acts = op.effect in ("io", "python") or (op.effect == "random" and op.decompose is None)
    return not acts and not op.host


def is_settled_by(op: Op, args: Args) -> bool:
    """Whether values of arguments decide what is computed (how long a range in fractions is): opened, an operator asks
    for no more than what they decide, which may be another number the next time.
    """
    return any([question(args[i]) for i, question in op.specialized_positions if not isinstance(args[i], Tensor)])


def values_of(args: Iterable[Any]) -> Iterator[Deferred]:
    """The bases of the lazy tensors among arguments."""
    for a in args:
        if isinstance(a, Tensor):
            if type(a._data) is LazyPayload:
                yield a._data.storage.value
        elif type(a) in (tuple, list):
            yield from values_of(a)


def versions_of(args: Iterable[Any]) -> list[int]:
    """How often the memory of each tensor among arguments was written."""
    versions: list[int] = []
    for a in args:
        if isinstance(a, Tensor):
            versions.append(0 if a._storage is None else a._storage.version)
        elif type(a) is tuple:
            versions += versions_of(a)
    return versions


def on_cpu(args: Any, what: str) -> Any:
    """The arguments, with plain tensors in place of lazy ones."""
    if isinstance(args, Tensor):
        return tensor_around(args._data.materialize(what)) if type(args._data) is LazyPayload else args
    if type(args) in (tuple, list):
        return tuple([on_cpu(a, what) for a in args])
    return args
