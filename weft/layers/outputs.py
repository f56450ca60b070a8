"""`out=`: where a result goes that the caller has made room for, and what PyTorch refuses there."""

from __future__ import annotations

from typing import Any

from weft.layers.devices import is_at
from weft.ops.geometry import repeats_elements
from weft.ops.op import Out
from weft.support.errors import ArgumentError, DTypeError, StateError
from weft.tensor.backend import tensors_in
from weft.tensor.dense import payload_of
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import promotion
from weft.types.dtype import DType


def into(name: str, takes: Out, result: Any, out: Any, args: tuple[Any, ...]) -> Any:
    """Write a result, or several, into `out`. Returns the outputs, named as the results are."""
    if not isinstance(out, (tuple, list)):
        if isinstance(result, (tuple, list)):
            raise ArgumentError(f"{name}: expected {len(result)} tensors as out=, got one")
        return write_out(name, takes, result, out, args)
    if len(out) != len(result):
        raise ArgumentError(f"{name}: expected {len(result)} tensors as out=, got {len(out)}")
    written = [write_out(name, takes, r, o, args) for r, o in zip(result, out, strict=True)]
    return type(result)(*written) if hasattr(result, "_fields") else tuple(written)


def write_out(name: str, takes: Out, result: Tensor, out: Tensor, args: tuple[Any, ...] = ()) -> Tensor:
    """Write a result into an output, which takes its shape if it must. Raises DTypeError, StateError."""
    if not is_at(out, result.device):
        raise StateError(
            f"{name}: Expected all tensors to be on the same device, but found at least two devices, {result.device} "
            f"and {out.device}! Move the tensor given as out= with .to({str(result.device)!r})"
        )
    _check_dtype(name, takes, result.dtype, out.dtype, args)
    if takes.is_apart:
        _check_places(name, out)
        _check_apart(name, out, args)
    if tuple(out.shape) != tuple(result.shape):
        _resize(out, result)
    _check_places(name, out)
    out.copy_(result)
    return out


def computed_in(takes: Out, kwargs: dict[str, Any], out: Any) -> dict[str, Any]:
    """The keywords of a call with out=, whose dtype may be that of computation."""
    if takes.dtype != "computed" or kwargs.get("dtype") is not None or not isinstance(out, Tensor):
        return kwargs
    return {**kwargs, "dtype": out.dtype}


def no_history(name: str, args: tuple[Any, ...], out: Any) -> tuple[Any, ...]:
    """The arguments of a call with out=, none of which may want a gradient, nor may the outputs. Raises StateError."""
    if modes.grad and any(t.requires_grad for t in tensors_in((args, out))):
        raise StateError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    return args


def _check_dtype(name: str, takes: Out, result: DType, out: DType, args: tuple[Any, ...]) -> None:
    of_complex = [t.dtype for t in tensors_in(args) if t.dtype.is_complex] if takes.is_real else []
    if of_complex and out.is_complex:
        result = of_complex[0]
    elif of_complex or takes.dtype == "castable":
        return promotion.check_cast(result, out)
    if takes.dtype not in ("any", "castable") and out is not result and out not in takes.also:
        raise DTypeError(f"{name}: Expected out tensor to have dtype {result}, but got {out} instead")


def _check_places(name: str, out: Tensor) -> None:
    if payload_of(out).has_bytes and repeats_elements(out.geometry()):
        raise StateError(
            f"{name}: unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. Please clone() the tensor before performing the operation."
        )


def _check_apart(name: str, out: Tensor, args: tuple[Any, ...]) -> None:
    payload = payload_of(out)
    for t in tensors_in(args):
        if t is out or payload.overlaps(t._data):
            raise StateError(
                f"{name}: unsupported operation: some elements of the input tensor and the written-to tensor refer to "
                "a single memory location. Please clone() the tensor before performing the operation."
            )


def _resize(out: Tensor, result: Tensor) -> None:
    """An output of another shape is resized, as PyTorch does with a warning: what shows the same memory still shows
    it."""
    storage = out.storage()
    version = storage.version
    out.resize_(result.shape)
    if result.stride() != out.stride():
        out.as_strided_(result.shape, result.stride())
    storage.version = version  # the write that follows is counted
