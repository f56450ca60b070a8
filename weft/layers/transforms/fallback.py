"""The loop of vmap: an operator without a batch rule runs once per example, and the results are stacked.
Right for every operator, and slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.layers import walk
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.support.counters import counters
from weft.support.errors import Unsupported
from weft.support.warn import warn
from weft.tensor.backend import type_of
from weft.tensor.tensor import Tensor
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.sym import wrap
from weft.types.tensor_type import TensorType

Args = tuple[Any, ...]
_warned: set[Op] = set()


def loop(op: Op, size: Dim, flags: Args, *args: Any) -> Any:
    """The operator on each example, stacked. Warns once per operator; counted in weft.counters.vmap_loops. How many
    there are is guarded in a compiled function, as for a loop of Python's."""
    env = shape_env.current_env()
    if not isinstance(size, int) and env is None:
        raise Unsupported(
            f"vmap: {op.name} has no batch rule, and running it example by example needs to know how many there are"
        )
    _notice(op)
    return each(op, size if env is None else wrap(size, env), flags, args, lambda one: walk.walk(op, one))


def each(op: Op, size: Any, flags: Args, args: Args, run: Callable[[Args], Any]) -> Any:
    """What `run` gives for the arguments of each example, stacked; of none, what the type rule says."""
    if size == 0:
        return _empty(op, flags, args)
    return _stacked([run(tuple([_example(a, f, i) for a, f in zip(args, flags, strict=True)])) for i in range(size)])


def _notice(op: Op) -> None:
    counters.vmap_loops += 1
    if op not in _warned:
        _warned.add(op)
        warn(
            (
                f"There is a performance drop because the batching rule of {op.name} is not written: "
                "vmap runs it once per example."
            ),
        )


def _example(value: Any, flag: Any, i: int) -> Any:
    if type(flag) is tuple:
        return tuple([_example(v, f, i) for v, f in zip(value, flag, strict=True)])
    return aten.select(value, 0, i) if flag else value


def _stacked(results: list[Any]) -> Any:
    first = results[0]
    if isinstance(first, (tuple, list)):
        return tuple([_stacked([r[k] for r in results]) for k in range(len(first))])
    if isinstance(first, Tensor):
        return aten.stack(tuple(results))
    if any(type(r) is not type(first) or (r != first and (r == r or first == first)) for r in results):
        raise Unsupported(f"vmap: an operator answers some examples with {first!r}, others not: it has no batch rule")
    return first


def _empty(op: Op, flags: Args, args: Args) -> Any:
    """No examples: the type rule says what their results would look like."""
    if op.type is None:
        raise Unsupported(f"vmap: {op.name} over no examples: the entry has neither a batch rule nor a type rule")
    return _zeros(op.type(*[_example_type(a, f) for a, f in zip(args, flags, strict=True)]))


def _example_type(value: Any, flag: Any) -> Any:
    if type(flag) is tuple:
        return tuple([_example_type(v, f) for v, f in zip(value, flag, strict=True)])
    whole = type_of(value)
    return whole.with_dims(whole.shape[1:]) if flag else whole


def _zeros(type: Any) -> Any:
    if isinstance(type, TensorType):
        return aten.zeros((0, *type.shape), dtype=type.dtype)
    return tuple([_zeros(t) for t in type])
