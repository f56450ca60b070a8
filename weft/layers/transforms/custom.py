"""Custom Functions under the levels: what each level makes of `MyFunction.apply(*args)`.
It goes on below with the values, so levels nest here too."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

from weft.autograd.function import Function
from weft.autograd.function_context import FunctionCtx
from weft.autograd.saved import SavedTensor, unrecorded
from weft.layers.transforms.batched import BatchLevel
from weft.layers.transforms.batched_function import batched_function
from weft.layers.transforms.dual import DualLevel
from weft.layers.transforms.forward_ad_level import ForwardADLevel
from weft.layers.transforms.functional import FunctionalLevel
from weft.layers.transforms.grad_level import GradLevel
from weft.layers.transforms.level import Level, innermost
from weft.ops.packet import aten
from weft.support import pytree
from weft.support.errors import StateError
from weft.tensor.dense import payload_of
from weft.tensor.modes import enable_grad, modes
from weft.tensor.tensor import Tensor

Args = tuple[Any, ...]
Kind = type[Function]


class VmapInfo(NamedTuple):
    """What a Function's vmap is told."""

    batch_size: Any
    randomness: str


def _check_style(function: Kind) -> None:
    if function.setup_context is Function.setup_context:
        raise StateError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), "
            f"it must override the setup_context staticmethod: write {function.__name__} with forward(*args) and "
            "setup_context(ctx, inputs, output) instead of forward(ctx, *args)."
        )


def _outputs(output: Any) -> Args:
    return output if isinstance(output, tuple) else (output,)


def _like(output: Any, many: Args) -> Any:
    return many if isinstance(output, tuple) else many[0]


# ---- grad
def under_grad(level: GradLevel, function: Kind, args: Args) -> Any:
    """Computed below; the node of the call and its context belong to this level."""
    _check_style(function)
    inside = level.lift(args)
    needs = tuple([isinstance(a, Tensor) and a.requires_grad for a in inside])

    def run(ctx: FunctionCtx, wrapped: Args) -> Any:
        values = level.lower(wrapped)
        previous = modes.grad
        modes.grad = previous and level.grad_outside
        try:
            output = level.down(lambda: function.apply(*values))
        finally:
            modes.grad = previous
        made = _like(output, tuple([_argument_or(level.wrap, o, values, wrapped) for o in _outputs(output)]))
        with unrecorded():
            function.setup_context(ctx, wrapped, made)
        return made

    return function._record(inside, needs, modes.grad and not level.is_quiet and any(needs), run)


def _argument_or(make: Callable[[Tensor], Tensor], output: Any, values: Args, args: Args) -> Any:
    """An output at this level; one that is an argument stays that argument."""
    if not isinstance(output, Tensor):
        return output
    at = next((i for i, v in enumerate(values) if v is output), None)
    return make(output) if at is None or values[at] is args[at] else args[at]


# ---- vmap
def under_vmap(level: BatchLevel, function: Kind, args: Args) -> Any:
    """By the Function's own vmap, or by one made of its forward and backward under vmap."""
    flags = level.flags(args)
    if flags is None:
        return level.down(lambda: function.apply(*args))
    has_own = function.vmap is not Function.vmap
    if has_own and function.generate_vmap_rule:
        raise StateError(
            f"You tried to vmap over {function.__name__}, but it has both generate_vmap_rule=True and an overriden "
            "vmap staticmethod. Please set generate_vmap_rule=False or delete the overriden vmap staticmethod to "
            "avoid ambiguity."
        )
    if not has_own and not function.generate_vmap_rule:
        raise StateError(
            f"You tried to vmap over {function.__name__}, but it does not have vmap support. "
            "Please override and implement the vmap staticmethod or set generate_vmap_rule=True."
        )
    _check_style(function)
    values = level.lower(args)
    if not has_own:
        made, out_flags = level.down(batched_function, function, level.size, level.randomness, flags, values)
        return _like(made, tuple([
            _argument_or(level.wrap, o, values, args) if f else o
            for o, f in zip(_outputs(made), out_flags, strict=True)
        ]))
    in_dims = tuple([_dims_of(f) for f in flags])
    info = VmapInfo(level.size, level.randomness)
    result = level.down(lambda: function.vmap(info, in_dims, *values))
    if not isinstance(result, tuple) or len(result) != 2:
        raise StateError(
            f"Expected the vmap staticmethod of {function.__name__} to have two returns, an output and out_dims with "
            "pytree structure compatible with the output."
        )
    return _wrapped_by_dims(level, *result, values, args)


def _dims_of(flag: Any) -> Any:
    return tuple(_dims_of(f) for f in flag) if type(flag) is tuple else 0 if flag else None


def _wrapped_by_dims(level: BatchLevel, output: Any, out_dims: Any, values: Args, args: Args) -> Any:
    leaves, spec = pytree.flatten(output)
    dims = [out_dims] * len(leaves) if out_dims is None or isinstance(out_dims, int) else _flat_dims(out_dims)
    if len(dims) != len(leaves):
        raise StateError(f"the vmap staticmethod gave {len(leaves)} outputs and {len(dims)} out_dims")

    def made(leaf: Any, dim: Any) -> Any:
        front = leaf if dim in (0, None) else level.down(aten.movedim, leaf, dim, 0)
        return front if dim is None else _argument_or(level.wrap, front, values, args)

    return pytree.unflatten([made(leaf, d) for leaf, d in zip(leaves, dims, strict=True)], spec)


def _flat_dims(dims: Any) -> list[Any]:
    if isinstance(dims, (tuple, list)):
        return [d for part in dims for d in _flat_dims(part)]
    return [dims]


# ---- jvp
def under_jvp(level: DualLevel, function: Kind, args: Args) -> Any:
    """By the Function's jvp; without one, by the transpose of its backward."""
    tangents = tuple([level.tangent_of(a) if isinstance(a, Tensor) else None for a in args])
    values = level.lower(args)
    if all(t is None for t in tangents):
        return _lifted(level, level.down(lambda: function.apply(*values)))
    rule = _transposed if function.jvp is Function.jvp else _by_rule
    output, pushed, dirty = level.down(rule, function, values, tangents)
    made = _like(
        output,
        tuple([_with_tangent(level, o, t, values, args, dirty) for o, t in zip(_outputs(output), pushed, strict=True)]),
    )
    return _recorded(function, args, made) if isinstance(level, ForwardADLevel) and level.records(args) else made


def _with_tangent(level: DualLevel, output: Any, tangent: Any, values: Args, args: Args, dirty: Args) -> Any:
    """A dual output; of an argument that the Function wrote, that argument with its new tangent."""
    if not isinstance(output, Tensor):
        return output
    at = next(
        (i for i, v in enumerate(values) if v is output and any(v is d for d in dirty) and level.owns(args[i])), None
    )
    if at is None:
        return level.make(output, tangent)
    level._write_tangent(args[at], tangent)
    return args[at]


def _recorded(function: Kind, args: Args, made: Any) -> Any:
    """Dual outputs with the node of the call, whose context holds dual tensors:
    its backward gives gradients with tangents."""
    needs = tuple([isinstance(a, Tensor) and a.requires_grad for a in args])

    def run(ctx: FunctionCtx, given: Args) -> Any:
        with unrecorded():
            if function.setup_context is not Function.setup_context:
                function.setup_context(ctx, given, made)
                return made
            again = _outputs(function.forward(ctx, *given))
        if ctx._dirty:
            raise StateError(
                f"{function.__name__}: gradients of dual tensors through a Function that writes into its arguments "
                "need forward(*args) and setup_context(ctx, inputs, output) instead of forward(ctx, *args)"
            )
        ctx._to_save = tuple(
            [next((m for m, o in zip(_outputs(made), again, strict=True) if o is t), t) for t in ctx._to_save]
        )
        return made

    return function._record(args, needs, True, run)


def _lifted(level: Level, output: Any) -> Any:
    return _like(output, tuple([level.lift(o) for o in _outputs(output)]))


def _by_rule(function: Kind, values: Args, tangents: Args) -> tuple[Any, Args, Args]:
    """The output, its tangents by the Function's jvp, and the arguments that it wrote."""
    output, ctx = _with_context(function, values)
    saved = ctx._for_forward or ctx._to_save
    ctx = copy.copy(ctx)
    ctx._saved = tuple([None if t is None else SavedTensor(t) for t in saved])
    given = [
        aten.zeros_like(v) if t is None and ctx._materialize and isinstance(v, Tensor) and v.dtype.is_differentiable
        else t for v, t in zip(values, tangents, strict=True)
    ]
    pushed = _outputs(function.jvp(ctx, *given))
    if len(pushed) != len(_outputs(output)):
        raise StateError(
            f"{function.__name__}Backward: jvp returned an incorrect number of forward gradients "
            f"(expected {len(_outputs(output))}, got {len(pushed)})"
        )
    return output, pushed, ctx._dirty


def _with_context(function: Kind, values: Args) -> tuple[Any, FunctionCtx]:
    """The output, and a context as forward left it."""
    kept: list[FunctionCtx] = []
    if function.setup_context is not Function.setup_context:
        output = function.apply(*values)
        ctx = FunctionCtx(tuple([isinstance(v, Tensor) and v.requires_grad for v in values]))
        function.setup_context(ctx, values, output)
        return output, ctx
    if modes.special is not None:
        _check_style(function)

    def run(ctx: FunctionCtx, args: Args) -> Any:
        output = function._run_forward(ctx, args)
        kept.append(copy.copy(ctx))
        return output

    needs = tuple([isinstance(v, Tensor) and v.requires_grad for v in values])
    return function._record(values, needs, modes.grad and any(needs), run), kept[0]


def _transposed(function: Kind, values: Args, tangents: Args) -> tuple[Any, Args, Args]:
    """The tangents by the backward's own transpose: u -> backward(u) is linear. Raises StateError where backward hides
    how it depends on u."""
    inner, outer = GradLevel(), GradLevel()
    with inner, enable_grad():
        inputs = [inner.leaf(v) if t is not None else v for v, t in zip(values, tangents, strict=True)]
        made = function.apply(*inputs)
        carries = [inner.owns(o) and o.requires_grad for o in _outputs(made)]
        output = _like(made, inner.lower(_outputs(made)))
    wanted = [i for i, t in enumerate(tangents) if t is not None]
    zeros = [aten.zeros_like(o) for o, c in zip(_outputs(output), carries, strict=True) if c]
    if not zeros:
        return output, (None,) * len(carries), ()
    with outer, enable_grad():
        seeds = [outer.leaf(z) for z in zeros]
        with inner:
            results = [o for o, c in zip(_outputs(made), carries, strict=True) if c]
            gradients = inner.gradients(results, [inputs[i] for i in wanted], seeds, keep=True)
            hidden = [k for k, g in enumerate(gradients) if not (outer.owns(g) and g.requires_grad)]
            if hidden:
                of_ones = inner.gradients(results, [inputs[i] for i in wanted], [aten.ones_like(s) for s in seeds])
                _check_backward(function, [of_ones[k] for k in hidden])
        found = iter(outer.gradients(gradients, seeds, [tangents[i] for i in wanted]))
    return output, tuple([next(found) if c else None for c in carries]), ()


def _check_backward(function: Kind, of_ones: list[Tensor]) -> None:
    """Gradients that do not depend on the seeds, as far as is known, must be zero for any."""
    for gradient in of_ones:
        payload = payload_of(innermost(gradient))
        if payload.has_bytes and payload.materialize("a check of its values").any():
            raise StateError(
                f"{function.__name__}: forward mode needs a jvp staticmethod, or a backward that may be differentiated "
                "(this one is once_differentiable, or computes outside of weft)"
            )


# ---- functionalize
def under_functionalize(level: FunctionalLevel, function: Kind, args: Args) -> Any:
    """Computed below, as one step."""
    values = level.lower(args)
    return _lifted(level, level.down(lambda: function.apply(*values)))


__all__ = ["BatchLevel", "DualLevel", "FunctionalLevel", "GradLevel", "VmapInfo"]


def install() -> None:
    """Give the levels their way with custom Functions (which import the levels, not the other way round)."""
    table: dict[type[Level], Callable[..., Any]] = {
        GradLevel: under_grad, BatchLevel: under_vmap, DualLevel: under_jvp, FunctionalLevel: under_functionalize,
    }
    for level, rule in table.items():
        level.apply_function = rule  # type: ignore[attr-defined]


install()
