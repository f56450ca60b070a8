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
from weft.tensor.modes import enable_grad, modes, set_grad_enabled
from weft.tensor.tensor import Tensor
from weft.types import shape_env
from weft.types.sym import wrap

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
        with set_grad_enabled(modes.grad and level.grad_outside):
            output = level.down(lambda: function.apply(*values))
        result = _like(output, tuple([_argument_or(level.wrap, o, values, wrapped) for o in _outputs(output)]))
        with unrecorded():
            function.setup_context(ctx, wrapped, result)
        return result

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
    _check_style(function)
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
    values = level.lower(args)
    if not has_own:
        output, out_flags = level.down(batched_function, function, level.size, level.randomness, flags, values)
        return _like(output, tuple([
            _argument_or(level.wrap, o, values, args) if f else o
            for o, f in zip(_outputs(output), out_flags, strict=True)
        ]))
    values, in_dims = level.as_given(args)
    env = shape_env.current_env()
    info = VmapInfo(level.size if env is None else wrap(level.size, env), level.randomness)
    result = level.down(lambda: function.vmap(info, in_dims, *values))
    if not isinstance(result, tuple) or len(result) != 2:
        raise StateError(
            f"Expected the vmap staticmethod of {function.__name__} to have two returns, an output and out_dims with "
            "pytree structure compatible with the output."
        )
    return _wrapped_by_dims(level, *result, values, in_dims, args)


def _wrapped_by_dims(
    level: BatchLevel, output: Any, out_dims: Any, values: Args, in_dims: tuple[Any, ...], args: Args
) -> Any:
    """What a Function's own vmap gave, at this level; an argument that it gave back stays that argument."""
    leaves, spec = pytree.flatten(output)
    dims = pytree.spread(out_dims, spec)
    if dims is None:
        raise StateError(
            f"The vmap staticmethod returned an incompatible (out_dims, output) pair: out_dims is {out_dims!r}, and "
            f"the output has the structure {spec}"
        )

    def wrapped(leaf: Any, dim: Any) -> Any:
        if dim is None:
            return leaf
        argument = next((a for a, v, d in zip(args, values, in_dims, strict=True) if v is leaf and d == dim), None)
        return level.wrap(level.down(aten.movedim, leaf, dim, 0) if dim else leaf) if argument is None else argument

    return pytree.unflatten([wrapped(leaf, d) for leaf, d in zip(leaves, dims, strict=True)], spec)


# ---- jvp
def under_jvp(level: DualLevel, function: Kind, args: Args) -> Any:
    """By the Function's jvp; without one, by the transpose of its backward."""
    tangents = tuple([level.tangent_of(a) if isinstance(a, Tensor) else None for a in args])
    values = level.lower(args)
    if all(t is None for t in tangents):
        return _lifted(level, level.down(lambda: function.apply(*values)))
    has_rule = function.jvp is not Function.jvp
    if not has_rule and isinstance(level, ForwardADLevel) and function.setup_context is Function.setup_context:
        function.jvp(None)  # says what to write
    output, pushed, ctx = level.down(_by_rule if has_rule else _transposed, function, values, tangents)
    dirty = () if ctx is None else ctx._dirty
    duals = _like(
        output,
        tuple([_with_tangent(level, o, t, values, args, dirty) for o, t in zip(_outputs(output), pushed, strict=True)]),
    )
    if isinstance(level, ForwardADLevel) and level.records(args):
        return _recorded(function, args, duals, ctx, (*values, *_outputs(output)))
    return duals


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


def _recorded(function: Kind, args: Args, duals: Any, before: FunctionCtx | None, below: Args) -> Any:
    """Dual outputs with the node of the call, whose context holds dual tensors:
    its backward gives gradients with tangents. `below` are the values of args and outputs, as `before`, the context of
    the run below, knows them."""
    needs = tuple([isinstance(a, Tensor) and a.requires_grad for a in args])
    above = (*args, *_outputs(duals))

    def lifted(tensors: Args) -> Args:
        return tuple([next((a for a, b in zip(above, below, strict=True) if b is t), t) for t in tensors])

    def run(ctx: FunctionCtx, inputs: Args) -> Any:
        if before is None or function.setup_context is not Function.setup_context:
            with unrecorded():
                function.setup_context(ctx, inputs, duals)
            return duals
        ctx.__dict__.update({**before.__dict__, "needs_input_grad": ctx.needs_input_grad, "_saved": ctx._saved})
        for name in ("_to_save", "_for_forward", "_dirty", "_without_grad"):
            setattr(ctx, name, lifted(getattr(before, name)))
        return duals

    return function._record(args, needs, True, run)


def _lifted(level: Level, output: Any) -> Any:
    return _like(output, tuple([level.lift(o) for o in _outputs(output)]))


def _by_rule(function: Kind, values: Args, tangents: Args) -> tuple[Any, Args, FunctionCtx]:
    """The output, its tangents by the Function's jvp, and the context as forward left it."""
    output, left = _with_context(function, values)
    ctx = copy.copy(left)
    ctx._saved = tuple([None if t is None else SavedTensor(t) for t in ctx._for_forward])
    ctx._to_save = ()
    materialized = tuple([
        aten.zeros_like(v) if t is None and ctx._materialize and isinstance(v, Tensor) and v.dtype.is_differentiable
        else t for v, t in zip(values, tangents, strict=True)
    ])
    versions = [t._version if isinstance(t, Tensor) else 0 for t in materialized]
    outputs, pushed = _outputs(output), _outputs(function.jvp(ctx, *materialized))
    kept = tuple([t for t, v in zip(materialized, versions, strict=True) if isinstance(t, Tensor) and t._version == v])
    if len(pushed) != len(outputs):
        raise StateError(
            f"{function.__name__}Backward: jvp returned an incorrect number of forward gradients "
            f"(expected {len(outputs)}, got {len(pushed)})"
        )
    for i, (out, tangent) in enumerate(zip(outputs, pushed, strict=True)):
        _check_tangent(f"{function.__name__}: ", left, i, out, tangent, values, materialized, kept)
    return output, pushed, left


def _check_tangent(
    name: str, ctx: FunctionCtx, i: int, output: Any, tangent: Any, values: Args, tangents: Args, kept: Args
) -> None:
    """What jvp returned for an output must be related to the tangents that it was given (`kept`: and did not write)
    as the output is to the arguments. Raises StateError."""
    if not isinstance(output, Tensor) or not output.dtype.is_differentiable or _is_in(output, ctx._without_grad):
        if tangent is not None:
            raise StateError(
                f"{name}jvp returned a forward gradient for output {i}, which is not differentiable. "
                "You should return None at that position instead."
            )
        return
    at = next((k for k, v in enumerate(values) if v is output), None)
    if at is not None and _is_in(output, ctx._dirty):
        if tangent is not tangents[at] or _is_in(tangent, kept):
            raise StateError(
                f"{name}An inplace custom Function is not modifying the forward mode gradients inplace. If the forward "
                "is modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
            )
        return
    if at is None and output._view is not None:
        at = next((k for k, v in enumerate(values) if isinstance(v, Tensor) and _base(v) is _base(output)), None)
    if at is None or tangents[at] is None or not isinstance(tangent, Tensor):
        return
    text = (
        f"{name}A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view"
    )
    if tangent._view is None:
        raise StateError(f"{text}.")
    if _base(tangent) is not _base(tangents[at]):
        what = "the given grad input" if values[at]._view is None else "the same base as the given grad input"
        raise StateError(f"{text} of {what}.")


def _is_in(tensor: Any, tensors: Args) -> bool:
    return any(t is tensor for t in tensors)


def _base(tensor: Tensor) -> Tensor:
    return tensor if tensor._view is None else tensor._view.base


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


def _transposed(function: Kind, values: Args, tangents: Args) -> tuple[Any, Args, None]:
    """The tangents by the backward's own transpose: u -> backward(u) is linear. Raises StateError where backward hides
    how it depends on u."""
    inner, outer = GradLevel(), GradLevel()
    with inner, enable_grad():
        inputs = [inner.leaf(v) if t is not None else v for v, t in zip(values, tangents, strict=True)]
        inner_output = function.apply(*inputs)
        carries = [inner.owns(o) and o.requires_grad for o in _outputs(inner_output)]
        output = _like(inner_output, inner.lower(_outputs(inner_output)))
    wanted = [i for i, t in enumerate(tangents) if t is not None]
    zeros = [aten.zeros_like(o) for o, c in zip(_outputs(output), carries, strict=True) if c]
    if not zeros:
        return output, (None,) * len(carries), None
    with outer, enable_grad():
        seeds = [outer.leaf(z) for z in zeros]
        with inner:
            results = [o for o, c in zip(_outputs(inner_output), carries, strict=True) if c]
            gradients = inner.gradients(results, [inputs[i] for i in wanted], seeds, keep=True)
            hidden = [k for k, g in enumerate(gradients) if not (outer.owns(g) and g.requires_grad)]
            if hidden:
                of_ones = inner.gradients(results, [inputs[i] for i in wanted], [aten.ones_like(s) for s in seeds])
                _check_backward(function, [of_ones[k] for k in hidden])
        pushed = iter(outer.gradients(gradients, seeds, [tangents[i] for i in wanted]))
    return output, tuple([next(pushed) if c else None for c in carries]), None


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
