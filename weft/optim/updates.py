"""What update rules are written with: the direction, and in-place steps by numbers or 0-dim tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from weft.autograd.accumulate import gradient_of
from weft.ops.packet import aten
from weft.tensor.backend import Backend
from weft.tensor.dense import is_dense, payload_of
from weft.tensor.modes import floor, modes
from weft.tensor.tensor import Tensor
from weft.types.formats import strided

Group = dict[str, Any]


def descent(p: Tensor, maximize: bool, weight_decay: Any) -> Tensor:
    """The gradient to descend along: negative to maximize, with weight_decay * p added."""
    return directed(gradient_of(p), p, maximize, weight_decay)


def directed(gradient: Any, p: Tensor, maximize: bool, weight_decay: Any) -> Tensor:
    """The direction of a gradient; see descent."""
    if maximize:
        gradient = -gradient
    return aten.add(gradient, p, alpha=weight_decay) if weight_decay != 0 else gradient


def dense(gradient: Tensor) -> Tensor:
    """The gradient, or its dense form where it is sparse."""
    return gradient if gradient.layout is strided else gradient.to_dense()


def places_and_values(gradient: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
    """A sparse gradient as what indexes the places where it is, each once, and what it is there."""
    gradient = gradient.coalesce()
    return tuple(aten.unbind(gradient._indices(), 0)), gradient._values()


def add_at(tensor: Tensor, places: tuple[Tensor, ...], values: Tensor) -> None:
    """Add to the elements of a dense tensor at places that are there once each."""
    tensor.index_put_(places, values, accumulate=True)


Row = tuple[Any, ...]


def update_each(rule: Callable[..., None], rows: Iterable[Row], *args: Any) -> None:
    """`rule(*row, *args)` for each row, a parameter and what is its own: one step of each. A rule hangs on its
    arguments alone, and hands its numbers to operators as they are, so that a device may repeat what it did before.
    """
    below = floor() if modes.capture is None else None

    def backend(row: Row) -> Backend:
        p: Tensor = row[0]
        own: Backend = payload_of(p).backend
        return below.backend if below is not None and is_dense(p) else own

    for where, group in groupby(rows, backend):
        where.update_each(rule, list(group), args)


def before_write(state: Tensor, group: Group) -> Tensor:
    """A state tensor that is read just before it is written: a differentiable step keeps what was read."""
    return kept(state, group["differentiable"])


def kept(state: Tensor, is_differentiable: bool) -> Tensor:
    """See before_write."""
    return state.clone() if is_differentiable else state


def add_multiple(p: Tensor, direction: Tensor, factor: Any) -> None:
    """p += factor * direction in place, where the factor is a number or a 0-dim tensor."""
    if isinstance(factor, Tensor):
        p.add_(direction * factor)
    else:
        p.add_(direction, alpha=factor)


def add_quotient(p: Tensor, numerator: Tensor, denominator: Tensor, factor: Any) -> None:
    """p += factor * numerator / denominator in place, where the factor is a number or a 0-dim tensor."""
    if isinstance(factor, Tensor):
        p.add_(numerator * factor / denominator)
    else:
        p.addcdiv_(numerator, denominator, value=factor)
