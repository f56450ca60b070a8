"""vmap: a function of one example as a function of a batch of them; and a look inside."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.layers.transforms.batched import RANDOMNESS, BatchLevel
from weft.layers.transforms.level import Wrapper
from weft.ops.packet import aten
from weft.runtime.generator import default_generator
from weft.support import pytree
from weft.support.errors import IndexBoundsError, StateError, ValueProblem
from weft.tensor.modes import active_trace, as_they_are, keeps_modes
from weft.tensor.tensor import Tensor
from weft.types import shape_env

Function = Callable[..., Any]
Dims = Any  # an int, None, or a pytree of them


def vmap(
    func: Function, in_dims: Dims = 0, out_dims: Dims = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Function:
    """A function that maps `func` over a dim of its arguments, computing all examples at once.

    in_dims: the dim that is mapped over, for every argument, or one per argument;
    None for an argument (or a part of it) that all examples share.
    out_dims: where the batch goes in the outputs. randomness: "error" (a random operator is refused), "same" or
    "different" numbers for each example. chunk_size: how many examples run at once (within a compiled function all of
    them). Arguments and outputs are pytrees of tensors; what is passed by name is the same for all examples. Raises
    ValueProblem for in_dims and out_dims that do not fit; StateError for what needs the value of one example (.item(),
    `if tensor`).
    """
    if randomness not in RANDOMNESS:
        raise StateError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueProblem(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        trace = active_trace()
        if trace is not None:
            options = {"in_dims": in_dims, "out_dims": out_dims, "randomness": randomness, "chunk_size": chunk_size}
            return trace.transform("weft.func.vmap", func, options, args, kwargs)
        args, kwargs = as_they_are((args, kwargs))
        leaves, spec, dims = _flat_inputs(func, in_dims, args)
        size = _batch_size(leaves, dims)
        if chunk_size is not None and isinstance(size, int) and size > chunk_size:
            return _in_chunks(func, leaves, spec, dims, size, out_dims, randomness, chunk_size, kwargs)
        return _map(func, leaves, spec, dims, size, out_dims, randomness, kwargs)

    return mapped


@keeps_modes
def _map(
    func: Function, leaves: list[Any], spec: pytree.TreeSpec, dims: list[Any], size: Any, out_dims: Dims,
    randomness: str, kwargs: dict[str, Any],
) -> Any:
    """One call of the function, with the level on."""
    level = BatchLevel(size, randomness)
    inside = [leaf if d is None else level.argument(leaf, d) for leaf, d in zip(leaves, dims, strict=True)]
    with level:
        result = func(*pytree.unflatten(inside, spec), **kwargs)
    return _unwrapped(func, level, result, out_dims)


# ---- inputs
def _flat_inputs(func: Function, in_dims: Dims, args: tuple[Any, ...]) -> tuple[list[Any], pytree.TreeSpec, list[Any]]:
    name = getattr(func, "__name__", repr(func))
    if not isinstance(in_dims, (int, tuple)):
        raise ValueProblem(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) "
            f"tuple matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueProblem(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, spec = pytree.flatten(args)
    dims = pytree.spread(in_dims, spec)
    if dims is None:
        raise ValueProblem(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of "
            f"`inputs`. in_dims has structure {pytree.flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    return leaves, spec, [_checked_dim(name, in_dims, leaf, d) for leaf, d in zip(leaves, dims, strict=True)]


def _checked_dim(name: str, in_dims: Dims, leaf: Any, dim: Any) -> Any:
    start = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for "
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueProblem(f"{start}an input but in_dim must be either an integer dimension or None.")
    if not isinstance(leaf, Tensor):
        raise ValueProblem(
            f"{start}an input but the input is of type {type(leaf)}. We cannot vmap over non-Tensor arguments, "
            "please use None as the respective in_dim"
        )
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueProblem(
            f"{start}some input, but that input is a Tensor of dimensionality {leaf.ndim} so expected in_dim to "
            f"satisfy -{leaf.ndim} <= in_dim < {leaf.ndim}."
        )
    return dim % leaf.ndim


def _batch_size(leaves: list[Any], dims: list[Any]) -> Any:
    """The number of examples."""
    sizes = [leaf.dims[d] for leaf, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueProblem("vmap: Expected at least one Tensor to vmap over, but in_dims is None for all inputs")
    if any(not (s == sizes[0] or shape_env.equal(s, sizes[0])) for s in sizes):
        raise ValueProblem(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            "mapped dimension"
        )
    return sizes[0]


# ---- outputs
def _unwrapped(func: Function, level: BatchLevel, result: Any, out_dims: Dims) -> Any:
    name = getattr(func, "__name__", repr(func))
    leaves, spec = pytree.flatten(result)
    if any(not (d is None or isinstance(d, int)) for d in pytree.flatten(out_dims)[0]):
        raise ValueProblem(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
            "that say where the mapped dim goes in the outputs"
        )
    dims = pytree.spread(tuple(out_dims) if isinstance(out_dims, list) else out_dims, spec)
    if dims is None and isinstance(out_dims, tuple) and spec.kind is None and len(out_dims) == 1:
        dims = list(out_dims)
    if dims is None:
        raise ValueProblem(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
            f"`outputs`. out_dims has structure {pytree.flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    return pytree.unflatten([_output(name, level, leaf, d) for leaf, d in zip(leaves, dims, strict=True)], spec)


def _output(name: str, level: BatchLevel, leaf: Any, dim: Any) -> Any:
    if dim is None:
        if level.owns(leaf):
            raise ValueProblem(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return leaf
    if not isinstance(leaf, Tensor):
        raise ValueProblem(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(leaf)}. "
            "Did you mean to set out_dims= to None for output?"
        )
    value = level.lower(leaf) if level.owns(leaf) else aten.expand(aten.unsqueeze(leaf, 0), (level.size, *leaf.dims))
    if not -value.ndim <= dim < value.ndim:
        raise IndexBoundsError(
            f"Dimension out of range (expected to be in range of [{-value.ndim}, {value.ndim - 1}], but got {dim})"
        )
    return value if dim % value.ndim == 0 else aten.movedim(value, 0, dim)


# ---- chunks
def _in_chunks(
    func: Function, leaves: list[Any], spec: pytree.TreeSpec, dims: list[Any], size: int, out_dims: Dims,
    randomness: str, chunk: int, kwargs: dict[str, Any],
) -> Any:
    parts: list[list[Any]] = []
    out_spec: Any = None
    place = default_generator.place()
    for start in range(0, size, chunk):
        if randomness == "same":  # for the examples of all chunks
            default_generator.return_to(place)
        count = min(chunk, size - start)
        some = [leaf if d is None else aten.narrow(leaf, d, start, count) for leaf, d in zip(leaves, dims, strict=True)]
        results, out_spec = pytree.flatten(_map(func, some, spec, dims, count, out_dims, randomness, kwargs))
        parts.append(results)
    places = pytree.spread(tuple(out_dims) if isinstance(out_dims, list) else out_dims, out_spec) or list(out_dims)
    joined = [
        column[0] if d is None else aten.cat(tuple(column), d)
        for column, d in zip(zip(*parts, strict=True), places, strict=True)
    ]
    return pytree.unflatten(joined, out_spec)


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """What a tensor inside of a transform holds, at the bottom of all levels (or one level below): to look at,
    not to compute with."""
    data = tensor._data
    if not isinstance(data, Wrapper):
        return tensor
    return debug_unwrap(data.value) if recurse else data.value
