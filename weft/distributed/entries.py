"""Collectives as operators: functional, differentiable, with the effect io, so that programs keep them in one order.

They are what all_reduce and broadcast become where a tensor's value is not there yet (weft.compile, split, lazy), and
what SyncBatchNorm and DistributedDataParallel are written with. `group` is the number of a process group: 0 for all
ranks. In a program each is two calls of Python between native parts: one starts it where its operand is there, the
other waits where nothing else is left to do (overlap in passes/effects.py).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.distributed.channel import DONE, Array
from weft.distributed.collectives import all_reduce_in_order, averaged
from weft.distributed.groups import ProcessGroup, group_of_number
from weft.distributed.names import DistError, ReduceOp
from weft.distributed.work import Work, move_on
from weft.ops.op import NOT_DIFFERENTIABLE, define
from weft.ops.packet import namespace_of
from weft.support.errors import ValueProblem
from weft.types import dtype as dt
from weft.types.tensor_type import TensorType, tensor_type

comm = namespace_of("comm")
_SMALL = 65_536  # bytes; less is moved on by who waits for it, which costs no change of threads
_LINEAR = ("SUM", "AVG")


def _reduced(x: Array, op: str, group: int, in_order: bool) -> Array:
    on, out = group_of_number(group), np.array(x, order="C")
    flat = out.reshape(-1)
    if in_order:
        all_reduce_in_order(flat, ReduceOp[op], on)
        return out
    on.start("all_reduce", on.channel.all_reduce(flat, ReduceOp[op]), keeps=flat).wait()
    averaged(flat, ReduceOp[op], on.size())
    return out


def _broadcast(x: Array, src: int, group: int) -> Array:
    on, out = group_of_number(group), np.array(x, order="C")
    on.start("broadcast", on.channel.broadcast(out.reshape(-1), src), keeps=out).wait()
    return out


@dataclass
class _UnderWay:
    """Collectives that programs have started, by ticket, and the orders of collectives that all ranks agree on."""

    works: dict[int, tuple[Work, Array]] = field(default_factory=dict)
    tickets: Iterator[int] = field(default_factory=itertools.count)
    agreed: set[tuple[int, str]] = field(default_factory=set)


_under_way = _UnderWay()


def _start(what: str, on: ProcessGroup, out: Array, request: Any, end: Callable[[], None] | None = None) -> Array:
    ticket = next(_under_way.tickets)
    work = on.start(what, request, end, out)
    _under_way.works[ticket] = work if out.nbytes < _SMALL else move_on(work), out
    return np.array(ticket)


def _start_all_reduce(x: Array, op: str, group: int, in_order: bool, order: str) -> Array:
    on, out = _agreed(group, order), np.array(x, order="C")
    flat = out.reshape(-1)
    if in_order:
        all_reduce_in_order(flat, ReduceOp[op], on)
        return _start("all_reduce", on, out, DONE)
    request = on.channel.all_reduce(flat, ReduceOp[op])
    return _start("all_reduce", on, out, request, lambda: averaged(flat, ReduceOp[op], on.size()))


def _start_broadcast(x: Array, src: int, group: int, order: str) -> Array:
    on, out = _agreed(group, order), np.array(x, order="C")
    return _start("broadcast", on, out, on.channel.broadcast(out.reshape(-1), src))


def _agreed(number: int, order: str) -> ProcessGroup:
    """The group. The first time that a program runs, its ranks compare the orders of their programs' collectives: two
    that differ would wait for each other, or mix up their tensors. Raises DistError where they do."""
    on = group_of_number(number)
    if order and (number, order) not in _under_way.agreed and on.size() > 1:
        mine = np.frombuffer(hashlib.sha256(order.encode()).digest(), np.uint8).copy()
        all_ranks = np.empty(on.size() * mine.size, np.uint8)
        on.start("comparing programs", on.channel.all_gather(all_ranks, mine), keeps=mine).wait()
        rows = all_ranks.reshape(on.size(), -1)
        others = [on.ranks[r] for r in range(on.size()) if not np.array_equal(rows[r], mine)]
        if others:
            raise DistError(
                f"the collectives of this program stand in another order, or are others, in ranks {others}; here: "
                f"{order}"
            )
        _under_way.agreed.add((number, order))
    return on


def _wait(x: Array, ticket: Array) -> Array:
    work, out = _under_way.works.pop(int(ticket))
    work.wait()
    return out


def _ticket(*arguments: Any) -> TensorType:
    return tensor_type(dt.int64, ())


def _gradient(g: Any, op: str, group: int, in_order: bool) -> Any:
    """Each rank's result hangs on every rank's operand: gradients are combined as the operands were."""
    if op not in _LINEAR:
        raise ValueProblem(f"all_reduce: there is a gradient for {' and '.join(_LINEAR)} only, not for {op}")
    return comm.all_reduce(g, op, group, in_order)


_parts: dict[str, Any] = {"vjp": NOT_DIFFERENTIABLE, "effect": "io", "public": ()}
wait = define(
    "comm::wait(Tensor self, Tensor ticket) -> Tensor",
    "What a collective that was started has made of tensors of self's type.",
    type=lambda self, ticket: self, kernel=_wait, like=True, **_parts,
)
start_all_reduce = define(
    "comm::start_all_reduce(Tensor self, str op, int group, bool in_order, str order) -> Tensor",
    "Start an all_reduce of a copy; the result is a ticket for `wait`.",
    type=_ticket, kernel=_start_all_reduce, **_parts,
)
start_broadcast = define(
    "comm::start_broadcast(Tensor self, int src, int group, str order) -> Tensor",
    "Start a broadcast of a copy; the result is a ticket for `wait`.",
    type=_ticket, kernel=_start_broadcast, **_parts,
)
all_reduce = define(
    "comm::all_reduce(Tensor self, str op, int group, bool in_order=False) -> Tensor",
    "The tensors of all ranks combined element by element; in_order: in the order of ranks.",
    type=lambda self, op, group, in_order: self,
    kernel=_reduced,
    halves=(start_all_reduce, wait),
    vjp={"self": _gradient},
    effect="io",
    public=(),
)
broadcast = define(
    "comm::broadcast(Tensor self, int src, int group) -> Tensor",
    "The tensor of one rank of the group, in every rank.",
    type=lambda self, src, group: self,
    kernel=_broadcast,
    halves=(start_broadcast, wait),
    vjp=NOT_DIFFERENTIABLE,
    effect="io",
    public=(),
)
