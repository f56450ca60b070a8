"""Forward mode: jvp and linearize."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.func.arguments import differentiable_inputs, map_tensors, some_outputs, split_aux
from weft.layers.transforms.dual import DualLevel
from weft.ops.packet import aten
from weft.support import pytree
from weft.support.errors import StateError
from weft.tensor.modes import active_trace, as_they_are, keeps_modes
from weft.tensor.tensor import Tensor

Function = Callable[..., Any]


def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """(func(*primals), J tangents): the derivative of func at primals along tangents,
    computed beside the value in one run.

    primals and tangents are tuples of the same structure, shapes and dtypes; with has_aux, func returns (output, aux)
    and the result is (output, J tangents, aux). strict: refuse an output that does not depend on the primals.
    Raises StateError.
    """
    trace = active_trace()
    if trace is not None:
        return trace.transform(
            "weft.func.jvp", func, {"strict": strict, "has_aux": has_aux}, (primals, tangents), {}
        )
    if not isinstance(primals, (tuple, list)):
        raise StateError(
            "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    leaves, spec = pytree.flatten(primals)
    directions, tangent_spec = pytree.flatten(tangents)
    if tangent_spec != spec:
        raise StateError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, "
            f"if primals is a tuple of 3 tensors, tangents also must be. Got primals with structure {spec} and "
            f"tangents with structure {tangent_spec}"
        )

    for what, values in (("primals", leaves), ("tangents", directions)):
        for value in values:
            if not isinstance(value, Tensor):
                raise StateError(
                    f"jvp(f, primals, tangents): Expected {what} to only contain Tensors, but got {type(value)}"
                )
    if not leaves:
        raise StateError("jvp(f, primals, tangents): Expected at least one Tensor in primals, got none")

    def of_leaves(*values: Tensor) -> Any:
        return func(*pytree.unflatten(list(values), spec))

    output, products, aux = push_forward(of_leaves, tuple(leaves), tuple(directions), has_aux, strict)
    return (output, products, aux) if has_aux else (output, products)


@keeps_modes
def push_forward(
    func: Function, primals: tuple[Tensor, ...], tangents: tuple[Any, ...], has_aux: bool, strict: bool = False
) -> tuple[Any, Any, Any]:
    """(output, tangent of the output, aux)."""
    primals, tangents = as_they_are((primals, tangents))
    for primal, tangent in zip(primals, tangents, strict=True):
        check_tangent(primal, tangent)
    with DualLevel() as level:
        inside = [level.make(p, t) for p, t in zip(primals, tangents, strict=True)]
        result, aux = split_aux(func(*inside), has_aux, "jvp(f, primals, tangents)")
        outputs, spec = some_outputs(result, "jvp(f, primals, tangents)")
        pairs = [level.parts(o) for o in outputs]
        aux = map_tensors(level.lower, aux)
    if strict and any(t is None for _, t in pairs):
        raise StateError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
            "This is not allowed with strict=True."
        )
    products = [aten.zeros_like(p) if t is None else t for p, t in pairs]
    return pytree.unflatten([p for p, _ in pairs], spec), pytree.unflatten(products, spec), aux


def check_tangent(primal: Tensor, tangent: Any) -> None:
    """Raises StateError for a tangent that is not of its primal's shape and dtype."""
    if not isinstance(tangent, Tensor):
        raise StateError(f"jvp(f, primals, tangents): Expected tangents to be Tensors, got {type(tangent)}")
    if len(primal.dims) != len(tangent.dims) or primal.shape != tangent.shape:
        raise StateError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, "
            f"this is not supported. Tensor is of size {list(primal.dims)} while the given forward gradient is of size "
            f"{list(tangent.dims)}."
        )
    if not primal.dtype.is_differentiable:
        raise StateError(
            "Expected a floating point or complex tensor that forward gradients are asked for, "
            f"got dtype {primal.dtype}"
        )
    if tangent.dtype is not primal.dtype:
        raise StateError(f"Expected tangent to have the dtype of its primal, {primal.dtype}, got {tangent.dtype}")


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """(func(*primals), jvp_fn): jvp_fn(*tangents) is J tangents at these primals, any number of times,
    without running func again.

    J is kept as the graph of func: a product with J is the transpose of the product with its transpose.
    """
    from weft.func.gradients import vjp  # gradients and forward are siblings

    trace = active_trace()
    if trace is not None:
        drawn: list[Any] = []  # (as in vjp)
        product = functools.partial(trace.transform, "weft.func.linearize()", func, {})
        output = trace.transform("weft.func.linearize", func, {}, primals, {}, drawn)
        return output, lambda *tangents: product((primals, tangents), {}, drawn)
    output, pullback = vjp(func, *primals)
    zeros = map_tensors(aten.zeros_like, output)

    _, forward = vjp(pullback, zeros)
    leaves, spec = differentiable_inputs(primals)

    def jvp_fn(*tangents: Any) -> Any:
        directions, tangent_spec = pytree.flatten(tangents)
        if tangent_spec != spec:
            raise StateError(f"Expected the tangents {tangent_spec} to have the same argspec as the primals {spec}")
        for i, (primal, tangent) in enumerate(zip(leaves, directions, strict=True)):
            for what in ("shape", "dtype", "device"):
                expected, got = getattr(primal, what), getattr(tangent, what, None)
                if got != expected:
                    raise StateError(
                        f"The tangent at {i} in flattened pytree doesn't match the {what} of its primal: expected "
                        f"{expected}, got {got}"
                    )
        return forward(tuple(tangents))[0]

    return output, jvp_fn
