"""weft.autograd.functional: jacobian, hessian, and products with them, of Python functions of tensors.

Forward-mode products come from running backward twice: u -> vjp(u) is linear, and its own vjp at v is J v.
They record whatever the grad mode: what does not ask for a graph is detached at the end.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from weft.autograd.api import grad
from weft.ops.packet import aten
from weft.support.errors import ArgumentError, StateError
from weft.tensor.modes import active_trace, enable_grad
from weft.tensor.tensor import Tensor

Tensors = Any
__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def recorded_as_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """Within a trace, a call of `function(func, inputs, ...)` is one step, with `func` in it."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        trace = active_trace()
        if trace is None:
            return function(*args, **kwargs)
        options = signature.bind(*args, **kwargs).arguments
        func, inputs = options.pop("func"), [options.pop(n) for n in ("inputs", "v") if n in options]
        return trace.transform(f"weft.autograd.functional.{function.__name__}", func, dict(options), inputs, {})

    return called


def _as_tuple(value: Tensors, what: str, name: str) -> tuple[bool, tuple[Tensor, ...]]:
    is_tuple = isinstance(value, (tuple, list))
    listed = tuple(value) if is_tuple else (value,)
    for i, tensor in enumerate(listed):
        if not isinstance(tensor, Tensor):
            place = f"value at index {i}" if is_tuple else f"given {what}"
            raise ArgumentError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the {place} has type "
                f"{type(tensor).__name__}."
            )
    return is_tuple, listed


def _prepared(inputs: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    """Inputs of their own for the function: views of the given ones when a graph is wanted, else fresh leaves."""
    return tuple(aten.alias(t) if create_graph and t.requires_grad else t.detach().requires_grad_() for t in inputs)


def _finished(tensors: tuple[Any, ...], is_tuple: bool, create_graph: bool) -> Any:
    out = tensors if create_graph else tuple(None if t is None else t.detach() for t in tensors)
    return out if is_tuple else out[0]


def _call(
    func: Callable[..., Any], inputs: tuple[Tensor, ...], name: str, strict: bool
) -> tuple[bool, tuple[Tensor, ...]]:
    with enable_grad():
        is_tuple, outputs = _as_tuple(func(*inputs), "outputs of the user-provided function", name)
    for i, out in enumerate(outputs):
        if strict and not out.requires_grad:
            raise StateError(
                f"Output {i} of the user-provided function does not require gradients. The outputs must depend on the "
                "inputs (strict=True)."
            )
    return is_tuple, outputs


_OUTPUT = "The output of the user-provided function is independent of input {}"
_OUTPUT_OF = "Output {} of the user-provided function is independent of input {}"
_JACOBIAN = "The jacobian of the user-provided function is independent of input {}"
_JACOBIAN_BY = "The jacobian of the user-provided function with respect to input {} is independent of the input"


def _gradients(
    outputs: tuple[Tensor, ...], inputs: tuple[Tensor, ...], seeds: tuple[Any, ...], create_graph: bool, strict: bool,
    missing: str = _OUTPUT, constant: str = _JACOBIAN,
) -> tuple[Tensor, ...]:
    """Gradients with zeros for what does not depend. `strict` refuses that (`missing`), and with create_graph gradients
    that depend on nothing (`constant`)."""
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=False) if o.requires_grad]
    if pairs:
        gradients = grad(
            [o for o, _ in pairs], inputs, [s for _, s in pairs], create_graph=create_graph, retain_graph=True,
            allow_unused=True,
        )
    else:
        gradients = (None,) * len(inputs)
    for i, gradient in enumerate(gradients):
        if strict and gradient is None:
            raise StateError(f"{missing.format(i)}. This is not allowed in strict mode.")
        if strict and create_graph and not gradient.requires_grad:
            raise StateError(f"{constant.format(i)}. This is not allowed in strict mode when create_graph=True.")
    return tuple(aten.zeros_like(t) if g is None else g for g, t in zip(gradients, inputs, strict=False))


def _directions(v: Any, like: tuple[Tensor, ...], is_many: bool, what: str, name: str) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise StateError(
                f"The vector v can only be None if the {what} contains a single Tensor with a single element."
            )
        return (aten.ones_like(like[0].detach()),)
    _, listed = _as_tuple(v, "v", name)
    if len(listed) != len(like):
        raise StateError(
            f"v is a tuple of invalid length: should be {len(like)} but got {len(listed)}." if is_many
            else "The given v should contain a single Tensor."
        )
    for i, (a, b) in enumerate(zip(listed, like, strict=False)):
        if a.shape != b.shape:
            entry = f"Entry {i} in v" if is_many else "v"
            raise StateError(f"{entry} has invalid size: should be {b.shape} but got {a.shape}.")
    return listed


@recorded_as_one
@enable_grad()
def vjp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(*inputs), v' J): v has the outputs' shapes (None for a scalar output)."""
    many, points = _as_tuple(inputs, "inputs", "vjp")
    points = _prepared(points, create_graph)
    out_many, outputs = _call(func, points, "vjp", strict)
    seeds = _directions(v, outputs, out_many, "user-provided function returns", "vjp")
    gradients = _gradients(outputs, points, seeds, create_graph, strict)
    return _finished(outputs, out_many, create_graph), _finished(gradients, many, create_graph)


@recorded_as_one
@enable_grad()
def jvp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(*inputs), J v): v has the inputs' shapes (None for a scalar input)."""
    many, points = _as_tuple(inputs, "inputs", "jvp")
    directions = _directions(v, points, many, "input to the user-provided function", "jvp")
    points = _prepared(points, create_graph)
    out_many, outputs = _call(func, points, "jvp", strict)
    products = _forward_products(outputs, points, directions, create_graph, strict)
    return _finished(outputs, out_many, create_graph), _finished(products, out_many, create_graph)


def _forward_products(
    outputs: tuple[Tensor, ...], points: tuple[Tensor, ...], directions: tuple[Tensor, ...], create_graph: bool,
    strict: bool,
) -> tuple[Tensor, ...]:
    with enable_grad():
        seeds = tuple(aten.zeros_like(o.detach()).requires_grad_() for o in outputs)
        transposed = _gradients(outputs, points, seeds, True, strict)
        return _gradients(transposed, seeds, directions, create_graph, strict)


@recorded_as_one
@enable_grad()
def jacobian(
    func: Callable[..., Any], inputs: Tensors, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian: outputs' shape followed by inputs' shape; a tuple (of tuples) for several outputs (and inputs).

    vectorize: all rows in one walk, as vmap computes them, instead of one walk each. strategy says how PyTorch
    computes; the result is the same here whatever it is (weft.func.jacfwd computes in forward mode).
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ArgumentError(f'Expected strategy to be either "forward-mode" or "reverse-mode" but got {strategy}.')
    many, points = _as_tuple(inputs, "inputs", "jacobian")
    points = _prepared(points, create_graph)
    out_many, outputs = _call(func, points, "jacobian", strict)
    rows = tuple(_jacobian_of(i, o, points, many, create_graph, strict, vectorize) for i, o in enumerate(outputs))
    return rows if out_many else rows[0]


def _jacobian_of(
    i: int, out: Tensor, points: tuple[Tensor, ...], many: bool, create_graph: bool, strict: bool, vectorize: bool
) -> Any:
    rows = _all_rows if vectorize and out.requires_grad and out.numel() else _row_by_row
    stacked = rows(i, out, points, create_graph, strict)
    shaped = [
        aten.zeros((*out.shape, *p.shape), dtype=p.dtype) if s is None else s.reshape((*out.shape, *p.shape))
        for s, p in zip(stacked, points, strict=True)
    ]
    return _finished(tuple(shaped), many, create_graph)


def _row_by_row(i: int, out: Tensor, points: tuple[Tensor, ...], create_graph: bool, strict: bool) -> list[Any]:
    columns: list[list[Tensor]] = [[] for _ in points]
    flat = aten.reshape(out, (-1,)) if out.requires_grad else None
    for k in range(int(out.numel())):
        gradients = _gradients(
            (flat[k],) if flat is not None else (), points, (None,), create_graph, strict, _OUTPUT_OF.format(i, "{}")
        )
        for column, gradient in zip(columns, gradients, strict=False):
            column.append(gradient)
    return [aten.stack(tuple(c)) if c else None for c in columns]


def _all_rows(i: int, out: Tensor, points: tuple[Tensor, ...], create_graph: bool, strict: bool) -> list[Any]:
    count = int(out.numel())
    seeds = aten.reshape(aten.eye(count, dtype=out.dtype), (count, *out.dims))
    rows = grad(
        out, points, seeds, retain_graph=True, create_graph=create_graph, allow_unused=True, is_grads_batched=True
    )
    if strict and any(g is None for g in rows):
        k = next(k for k, g in enumerate(rows) if g is None)
        raise StateError(f"{_OUTPUT_OF.format(i, k)}. This is not allowed in strict mode.")
    return list(rows)


@recorded_as_one
@enable_grad()
def hessian(
    func: Callable[..., Any], inputs: Tensors, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Second derivatives of a scalar function: shape of input i followed by that of input j;
    tuples of tuples for several inputs."""
    many, points = _as_tuple(inputs, "inputs", "hessian")

    def gradient(*args: Tensor) -> tuple[Tensor, ...]:
        _, outputs = _call(func, args, "hessian", strict)
        _scalar(outputs, "hessian")
        return _gradients(outputs, args, (None,), True, strict, _JACOBIAN_BY, _JACOBIAN_BY)

    blocks = jacobian(gradient, points, create_graph, strict, vectorize, outer_jacobian_strategy)
    return blocks if many else blocks[0][0]


def _scalar(outputs: tuple[Tensor, ...], name: str) -> None:
    if len(outputs) != 1:
        raise StateError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise StateError(f"The Tensor returned by the function given to {name} should contain a single element")


def _first_order(
    func: Callable[..., Any], inputs: Tensors, v: Tensors, name: str, create_graph: bool, strict: bool
) -> tuple[tuple[tuple[Tensor, ...], bool], bool, tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """What vhp and hvp begin with: the value (and whether it is many), whether the inputs are many, these,
    the directions, and the gradient with its history."""
    many, points = _as_tuple(inputs, "inputs", name)
    directions = _directions(v, points, many, "input to the user-provided function", name)
    points = _prepared(points, create_graph)
    out_many, outputs = _call(func, points, name, strict)
    _scalar(outputs, name)
    with enable_grad():
        first = _gradients(outputs, points, (None,), True, strict, constant=_JACOBIAN_BY)
    return (outputs, out_many), many, points, directions, first


@recorded_as_one
@enable_grad()
def vhp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(*inputs), v' H) for a scalar function."""
    value, many, points, directions, first = _first_order(func, inputs, v, "vhp", create_graph, strict)
    products = _gradients(first, points, directions, create_graph, strict)
    return _finished(*value, create_graph), _finished(products, many, create_graph)


@recorded_as_one
@enable_grad()
def hvp(
    func: Callable[..., Any], inputs: Tensors, v: Tensors = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(func(*inputs), H v) for a scalar function: forward over reverse."""
    value, many, points, directions, first = _first_order(func, inputs, v, "hvp", create_graph, strict)
    products = _forward_products(first, points, directions, create_graph, strict)
    return _finished(*value, create_graph), _finished(products, many, create_graph)
