"""Gradients of a user's operator, and what vmap makes of it: an autograd Function for each way its lists may lie.

The Function takes the arguments with lists spread out. What the user registered sees them as the schema has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.autograd.function import Function
from weft.layers.transforms.fallback import each
from weft.layers.walk import walk_on
from weft.library.values import separated
from weft.ops.packet import aten
from weft.support.errors import StateError
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.library.operators import UserOperator

Args = tuple[Any, ...]
Lengths = tuple[int | None, ...]  # of each argument that is a list of tensors, None for any other


def call_function(user: UserOperator, args: Args) -> Any:
    """The operator's results by its Function."""
    lengths = tuple([
        len(value) if a.is_tensor and a.is_list and value is not None else None
        for a, value in zip(user.schema.arguments, args, strict=True)
    ])
    function = user.functions.get(lengths)
    if function is None:
        function = user.functions[lengths] = _make(user, lengths)
    return function.apply(*_spread(lengths, args))


def _spread(lengths: Lengths, values: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for n, value in zip(lengths, values, strict=True):
        if n is None:
            flat.append(value)
        else:
            flat.extend([None] * n if value is None else value)
    return flat


def _gathered(lengths: Lengths, flat: Sequence[Any], kind: type = tuple) -> Args:
    """The inverse: lists of tensors together again."""
    at, out = 0, []
    for n in lengths:
        if n is None:
            out.append(flat[at])
            at += 1
        else:
            out.append(kind(flat[at : at + n]))
            at += n
    return tuple(out)


def _make(user: UserOperator, lengths: Lengths) -> type[Function]:
    """The Function for arguments whose lists have these lengths."""
    schema = user.schema
    name = f"GeneratedBackwardFor_{schema.namespace}_{schema.base}_{schema.overload or 'default'}"
    positional = sum(not a.keyword_only for a in schema.arguments)
    named = [a.name for a in schema.arguments[positional:]]

    def forward(*flat: Any) -> Any:
        return user.compute(walk_on, _gathered(lengths, flat))

    def setup_context(ctx: Any, inputs: Args, output: Any) -> None:
        if any(n is not None for n in lengths):
            ctx.needs_input_grad = _gathered(lengths, ctx.needs_input_grad, list)
        if user.setup_context is None:
            return
        arguments = _gathered(lengths, inputs, list)
        extra = {"keyword_only_inputs": dict(zip(named, arguments[positional:], strict=True))} if named else {}
        user.setup_context(ctx=ctx, inputs=arguments[:positional], output=output, **extra)

    def backward(ctx: Any, *grads: Any) -> Any:
        if user.backward is None:
            raise StateError(
                f"Trying to backward through {schema.namespace}.{schema.base}.{schema.overload or 'default'} but no "
                "autograd formula was registered. Please use register_autograd to add one."
            )
        gradients = user.backward(ctx, *([list(grads)] if schema.returns_list else grads))
        return tuple(_spread(lengths, _per_argument(name, gradients, positional) + (None,) * len(named)))

    def vmap(info: Any, in_dims: Args, *flat: Any) -> Any:
        args, dims = _gathered(lengths, flat), _gathered(lengths, in_dims, list)
        rule = user.vmap
        if rule is not None:
            return user.call(lambda *values, **also: rule(info, dims[:positional], *values, **also), args)
        return _one_by_one(user, info.batch_size, lengths, flat, in_dims)

    rules = {"forward": forward, "setup_context": setup_context, "backward": backward, "vmap": vmap}
    return type(name, (Function,), {key: staticmethod(rule) for key, rule in rules.items()})


def _per_argument(name: str, gradients: Any, count: int) -> Args:
    """What backward gave, one for each argument by position. Surplus Nones are forgiven."""
    out = gradients if isinstance(gradients, tuple) else (gradients,)
    if len(out) > count and all(g is None for g in out[count:]):
        out = out[:count]
    if len(out) != count:
        raise StateError(
            f"function {name}Backward returned an incorrect number of gradients (expected {count}, got {len(out)})"
        )
    return out


def _one_by_one(user: UserOperator, size: Any, lengths: Lengths, flat: Args, in_dims: Args) -> tuple[Any, Any]:
    """An operator without a rule for vmap: example by example."""
    flags = [isinstance(v, Tensor) and d is not None for v, d in zip(flat, in_dims, strict=True)]
    first = [aten.movedim(v, d, 0) if is_many else v for v, d, is_many in zip(flat, in_dims, flags, strict=True)]
    args = _gathered(lengths, first)
    out = each(user.op, size, _gathered(lengths, flags), args, lambda one: user.call(user.overload, one))
    dims = tuple([0 if isinstance(r, Tensor) else None for r in separated(out)])  # (numbers are those of all examples)
    return out, dims if isinstance(out, tuple) else dims[0]
