"""Whole Jacobians: jacrev (a row at a time, all rows at once), jacfwd (columns), hessian (columns of rows)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.func.arguments import (
    Argnums,
    checked_argnums,
    differentiable_inputs,
    map_tensors,
    only_real,
    only_tensors,
    pick,
    put,
    split_aux,
)
from weft.func.forward import push_forward
from weft.func.gradients import pull_back
from weft.func.mapping import vmap
from weft.layers.transforms.level import constants, top
from weft.ops.packet import aten
from weft.support import pytree
from weft.support.errors import ValueProblem
from weft.tensor.modes import active_trace
from weft.tensor.tensor import Tensor
from weft.types import dims as dm

Function = Callable[..., Any]


def jacrev(
    func: Function, argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """A function that computes the Jacobian of `func` with respect to the arguments that argnums name,
    by reverse mode and vmap.

    Each output of shape [*o] and input of shape [*i] give an array [*o, *i]; the result has the structure
    of the output, with that of the input inside. chunk_size: how many rows are computed at once (None: all).
    Best where there are fewer outputs than inputs.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueProblem("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        trace = active_trace()
        if trace is not None:
            options = {"argnums": argnums, "has_aux": has_aux, "chunk_size": chunk_size}
            return trace.transform("weft.func.jacrev", func, options, args, kwargs)
        inputs, spec, of_chosen = _of_chosen(func, argnums, args, kwargs)
        only_real(inputs, "jacrev: Expected all inputs")
        output, pullback, aux = pull_back(of_chosen, tuple(inputs), has_aux)
        outputs, out_spec = only_tensors(output, "jacrev: Expected all outputs to be tensors")
        only_real(outputs, "jacrev: Expected all outputs")
        rows = _rows(pullback, outputs, out_spec, chunk_size)
        jacobians = [_blocks(rows[k], outputs, x) for k, x in enumerate(inputs)]
        by_output = [pytree.unflatten([jacobians[k][o] for k in range(len(inputs))], spec) for o in range(len(outputs))]
        result = pytree.unflatten(by_output, out_spec)
        return (result, aux) if has_aux else result

    return jacobian


def _of_chosen(
    func: Function, argnums: Argnums, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Tensor], pytree.TreeSpec, Function]:
    """The tensors of the arguments that argnums name, their structure, and `func` as a function
    of these tensors alone."""
    chosen = checked_argnums(argnums, len(args))
    inputs, spec = differentiable_inputs(pick(args, chosen))

    def of_chosen(*leaves: Tensor) -> Any:
        level = top()
        assert level is not None, "it runs inside of a level"
        inside = tuple([map_tensors(level.lift, a) for a in args])  # all of them may be written
        return func(*put(inside, chosen, pytree.unflatten(list(leaves), spec)), **map_tensors(level.lift, kwargs))

    return inputs, spec, of_chosen


def _rows(pullback: Function, outputs: list[Tensor], out_spec: pytree.TreeSpec, chunk_size: int | None) -> list[Tensor]:
    """For each input the gradients of every output element, one below the other."""

    def row(*seeds: Tensor) -> Any:
        return pullback(pytree.unflatten(list(seeds), out_spec))

    directions = unit_vectors(outputs)
    if chunk_size == 1 and isinstance(directions[0].dims[0], int):  # without vmap and what it refuses
        rows = [row(*[d[i] for d in directions]) for i in range(directions[0].dims[0])]
        if rows:
            return [aten.stack(column) for column in zip(*rows, strict=True)]
    return list(vmap(row, chunk_size=chunk_size)(*directions))


def unit_vectors(tensors: list[Tensor]) -> list[Tensor]:
    """For each tensor the directions that move one element of one of them: [number of all elements, *shape]."""
    with constants(tensors):
        return _unit_vectors(tensors)


def _unit_vectors(tensors: list[Tensor]) -> list[Tensor]:
    counts = [dm.product(t.dims) for t in tensors]
    total: Any = 0
    for n in counts:
        total = total + n
    out: list[Tensor] = []
    before: Any = 0
    for t, n in zip(tensors, counts, strict=True):
        own = aten.add(aten._iota(n), before)
        hot = aten.eq(aten.unsqueeze(aten._iota(total), 1), aten.unsqueeze(own, 0))
        out.append(aten.reshape(aten._to_copy(hot, t.dtype), (total, *t.dims)))
        before = before + n
    return out


def _blocks(rows: Tensor, outputs: list[Tensor], x: Tensor) -> list[Tensor]:
    """The rows of one input, cut by output and shaped [*output, *input]."""
    counts = tuple(dm.product(o.dims) for o in outputs)
    cut = aten.split_with_sizes(rows, counts, 0) if len(outputs) > 1 else (rows,)
    return [aten.reshape(part, (*o.dims, *x.dims)) for part, o in zip(cut, outputs, strict=True)]


def jacfwd(func: Function, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error") -> Function:
    """Like jacrev, by forward mode: best where there are fewer inputs than outputs."""

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        trace = active_trace()
        if trace is not None:
            options = {"argnums": argnums, "has_aux": has_aux, "randomness": randomness}
            return trace.transform("weft.func.jacfwd", func, options, args, kwargs)
        inputs, spec, of_chosen = _of_chosen(func, argnums, args, kwargs)
        only_real(inputs, "jacfwd: Expected all inputs")

        def column(*directions: Tensor) -> Any:
            _, tangents, aux = push_forward(of_chosen, tuple(inputs), directions, has_aux)
            return (tangents, aux) if has_aux else tangents

        mapped = vmap(column, out_dims=(0, None) if has_aux else 0, randomness=randomness)(*unit_vectors(inputs))
        tangents, aux = split_aux(mapped, has_aux, "jacfwd")
        columns, out_spec = only_tensors(tangents, "jacfwd: Expected all outputs to be tensors")
        only_real(columns, "jacfwd: Expected all outputs")
        result = pytree.unflatten([pytree.unflatten(_columns(c, inputs), spec) for c in columns], out_spec)
        return (result, aux) if has_aux else result

    return jacobian


def _columns(stacked: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """[number of all input elements, *output] -> for each input [*output, *input]."""
    counts = tuple(dm.product(x.dims) for x in inputs)
    cut = aten.split_with_sizes(stacked, counts, 0) if len(inputs) > 1 else (stacked,)
    return [
        aten.reshape(aten.movedim(part, 0, -1), (*part.dims[1:], *x.dims)) for part, x in zip(cut, inputs, strict=True)
    ]


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """The second derivatives of `func`: jacfwd over jacrev."""
    return jacfwd(jacrev(func, argnums), argnums)
