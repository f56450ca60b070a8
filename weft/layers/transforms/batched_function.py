"""The vmap of a custom Function with generate_vmap_rule: a Function on whole batches, whose forward, backward and jvp
run the user's under vmap."""

from __future__ import annotations

from typing import Any

from weft.autograd.function import Function
from weft.layers.transforms.batched import BatchLevel
from weft.ops.batching import whole
from weft.ops.packet import aten
from weft.tensor.tensor import Tensor
from weft.types.dims import Dim

Args = tuple[Any, ...]


def batched_function(
    function: type[Function], size: Dim, randomness: str, flags: Args, values: Args
) -> tuple[Any, Args]:
    """(output, which of its parts are batched) of the Function on batched values."""
    batch = _batch_of(function, size, randomness, flags)
    return batch.apply(*values), batch.out_flags


class _Context:
    """The user's context within a batch: saved tensors go in whole and come out as examples. Which of them are batched
    is kept with the batch, since batches within batches share the innermost context."""

    def __init__(self, ctx: Any, level: BatchLevel, batch: Any, flags: Args = ()) -> None:
        self.__dict__.update(_ctx=ctx, _level=level, _batch=batch, _flags=flags)

    def save_for_backward(self, *tensors: Any) -> None:
        self._batch.saved_flags = self._level.flags(tensors) or (False,) * len(tensors)
        self._ctx.save_for_backward(*self._level.lower(tensors))

    def save_for_forward(self, *tensors: Any) -> None:
        self._batch.forward_flags = self._level.flags(tensors) or (False,) * len(tensors)
        self._ctx.save_for_forward(*self._level.lower(tensors))

    def mark_dirty(self, *tensors: Any) -> None:
        self._ctx.mark_dirty(*self._level.lower(tensors))

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self._ctx.mark_non_differentiable(*self._level.lower(tensors))

    @property
    def saved_tensors(self) -> Args:
        return _wrapped(self._level, self._ctx.saved_tensors, self._flags or self._batch.saved_flags)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)


def _wrapped(level: BatchLevel, values: Args, flags: Args) -> Args:
    return tuple([level.wrap(v) if f and isinstance(v, Tensor) else v for v, f in zip(values, flags, strict=True)])


def _many(output: Any) -> Args:
    return output if isinstance(output, tuple) else (output,)


def _fitted(value: Any, is_batched: bool, wants_batch: bool, size: Dim) -> Any:
    """A gradient or tangent with a batch dim where its tensor has one: one that every example shares,
    summed over them or spread."""
    if value is None or is_batched == wants_batch:
        return value
    return whole(value, size) if wants_batch else aten.sum(value, (0,))


def _batch_of(function: type[Function], size: Dim, randomness: str, flags: Args) -> Any:
    class Batch(Function):
        generate_vmap_rule = True
        out_flags: Args = ()
        saved_flags: Args = ()
        forward_flags: Args = ()

        @staticmethod
        def forward(*values: Any) -> Any:
            with BatchLevel(size, randomness) as level:
                output = function.forward(*_wrapped(level, values, flags))
                many = _many(output)
                Batch.out_flags = tuple([level.owns(o) for o in many])
                lowered = level.lower(many)
            return lowered if isinstance(output, tuple) else lowered[0]

        @staticmethod
        def setup_context(ctx: Any, inputs: Args, output: Any) -> None:
            with BatchLevel(size, randomness) as level:
                outputs = _wrapped(level, _many(output), Batch.out_flags)
                function.setup_context(
                    _Context(ctx, level, Batch), _wrapped(level, inputs, flags),
                    outputs if isinstance(output, tuple) else outputs[0],
                )

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            rule = function.vjp if function.vjp is not Function.vjp else function.backward
            with BatchLevel(size, randomness) as level:
                examples = _wrapped(level, gradients, Batch.out_flags)
                input_gradients = _many(rule(_Context(ctx, level, Batch), *examples))
                owned, lowered = [level.owns(g) for g in input_gradients], level.lower(input_gradients)
            return tuple([_fitted(g, o, bool(f), size) for g, o, f in zip(lowered, owned, flags, strict=False)])

    if function.jvp is not Function.jvp:

        def jvp(ctx: Any, *tangents: Any) -> Any:
            with BatchLevel(size, randomness) as level:
                context = _Context(ctx, level, Batch, Batch.forward_flags)
                out_tangents = _many(function.jvp(context, *_wrapped(level, tangents, flags)))
                owned, lowered = [level.owns(t) for t in out_tangents], level.lower(out_tangents)
            pushed = tuple(
                [_fitted(t, o, bool(f), size) for t, o, f in zip(lowered, owned, Batch.out_flags, strict=True)]
            )
            return pushed if len(pushed) > 1 else pushed[0]

        Batch.jvp = staticmethod(jvp)  # type: ignore[method-assign]
    Batch.__name__ = Batch.__qualname__ = f"Batched{function.__name__}"
    return Batch
