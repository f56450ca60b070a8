"""Reverse mode: grad, grad_and_value, vjp, jacrev."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.func.arguments import (
    Argnums,
    checked_argnums,
    differentiable_inputs,
    map_tensors,
    only_tensors,
    pick,
    put,
    some_outputs,
    split_aux,
)
from weft.layers.transforms.grad_level import GradLevel
from weft.support import pytree
from weft.support.errors import StateError
from weft.tensor.modes import active_trace, as_they_are, enable_grad, keeps_modes
from weft.tensor.tensor import Tensor

Function = Callable[..., Any]


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that computes the gradient of `func`, which returns a scalar, with respect to the arguments
    that argnums name.

    func(*args, **kwargs) -> scalar tensor, or (scalar, aux) with has_aux; the gradient has the structure
    of the argument (a tuple of them when argnums is a tuple). `no_grad` inside func counts, outside it does not.
    Raises StateError for an output that is no scalar.
    """

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        gradients, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def grad_and_value(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """Like grad, but gives (gradient, value); with has_aux (gradient, (value, aux))."""

    @keeps_modes
    @functools.wraps(func)
    def both(*args: Any, **kwargs: Any) -> Any:
        trace = active_trace()
        if trace is not None:
            return trace.transform(
                "weft.func.grad_and_value", func, {"argnums": argnums, "has_aux": has_aux}, args, kwargs
            )
        args, kwargs = as_they_are((args, kwargs))
        chosen = checked_argnums(argnums, len(args))
        with GradLevel() as level, enable_grad():
            outer, kwargs = level_arguments(level, args), map_tensors(level.wrap, kwargs)
            leaves, spec = differentiable_inputs(pick(args, chosen))
            inputs = [level.leaf(t) for t in leaves]
            result = func(*put(outer, chosen, pytree.unflatten(inputs, spec)), **kwargs)
            output, aux = split_aux(result, has_aux, "grad_and_value(f)(*args)")
            _check_scalar(output)
            input_gradients = level.gradients([output], inputs, [None])
            value, aux = level.lower(output), map_tensors(level.lower, aux)
        gradients = pytree.unflatten(input_gradients, spec)
        return (gradients, (value, aux)) if has_aux else (gradients, value)

    return both


def level_arguments(level: GradLevel, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments as tensors of the level, without history."""
    return tuple(map_tensors(level.wrap, a) for a in args)


def _check_scalar(output: Any) -> None:
    if not isinstance(output, Tensor):
        raise StateError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}")
    if output.ndim:
        raise StateError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with {output.ndim} "
            "dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
        )


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """(output, vjp_fn) of func at primals; (output, vjp_fn, aux) with has_aux.

    vjp_fn(cotangents), with the structure of the output, gives cotangents' J as a tuple with one entry per primal. It
    may be called any number of times, also inside of other transforms.
    """
    trace = active_trace()
    if trace is not None:
        return _traced_vjp(trace, func, primals, {"has_aux": has_aux})
    output, pullback, aux = pull_back(func, primals, has_aux)
    return (output, pullback, aux) if has_aux else (output, pullback)


def _traced_vjp(trace: Any, func: Function, primals: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """vjp within a trace: the value is one call, and each product another one, which draws what that one has drawn."""
    drawn: list[Any] = []

    def pullback(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        return trace.transform("weft.func.vjp()", func, options, (primals, cotangents), {}, drawn)

    output, *aux = trace.transform("weft.func.vjp", func, options, primals, {}, drawn)
    return (output, pullback, *aux)


@keeps_modes
def pull_back(func: Function, primals: tuple[Any, ...], has_aux: bool) -> tuple[Any, Function, Any]:
    """(output, vjp_fn, aux)."""
    level = GradLevel()
    with level, enable_grad():
        leaves, spec = differentiable_inputs(as_they_are(primals))
        inputs = [level.leaf(t) for t in leaves]
        result = func(*pytree.unflatten(inputs, spec))
        result, aux = split_aux(result, has_aux, "vjp(f, *primals)")
        outputs, out_spec = some_outputs(result, "vjp(f, *primals)")
        values = [level.lower(o) for o in outputs]
        aux = map_tensors(level.lower, aux)

    @keeps_modes
    def pullback(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        seeds, seed_spec = only_tensors(cotangents, "vjp_fn(cotangents): Expected tensors")
        if seed_spec != out_spec:
            raise StateError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {seed_spec}, primal output: {out_spec}"
            )
        for i, (seed, value) in enumerate(zip(seeds, values, strict=True)):
            check_seed(i, seed, value)
        with level:
            return pytree.unflatten(level.gradients(outputs, inputs, seeds, keep=retain_graph), spec)

    return pytree.unflatten(values, out_spec), pullback, aux


def check_seed(i: int, seed: Tensor, value: Tensor) -> None:
    """Raises StateError for a cotangent of another shape than its output."""
    if len(seed.dims) != len(value.dims) or seed.shape != value.shape:
        raise StateError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {seed.shape} and output[{i}] has a shape of "
            f"{value.shape}."
        )
