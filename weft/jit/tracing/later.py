"""Functions that a traced function hands over to be called by others: those of transforms (weft.func.grad), the
backward of a custom Function, hooks. Each is recorded once, on the example, as the block of a node.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from weft.autograd.function import Function, run_rules
from weft.autograd.function_context import FunctionCtx
from weft.ir.builder import Builder
from weft.ir.graph import Block, Node
from weft.jit.autodiff.backward import draws
from weft.jit.errors import CompileError
from weft.jit.interpreter.later.forms import Form, put_together, taken_apart, to_text
from weft.jit.interpreter.later.steps import is_argument, is_tensor, transformed
from weft.jit.script.frontend.values import Simple, constant
from weft.jit.tracing.structures import unwrapped
from weft.jit.tracing.values import PLACE, TracedNumber
from weft.layers.transforms.batched import Batched
from weft.layers.transforms.level import Wrapper
from weft.support.errors import ArgumentError, WeftError
from weft.tensor.modes import enable_grad, is_grad_enabled, no_grad
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt


class Spy:
    """A function that notes what its first call takes: the example that its block is recorded with."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.form: Form = None
        self.examples: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.form is None:
            self.form, values = taken_apart((args, kwargs), is_argument)
            self.examples = [_example(v) for v in values]
        return self.function(*args, **kwargs)


def _example(value: Any) -> Any:
    """What stands behind an argument at all levels of transforms: of a batch, the first example."""
    if not isinstance(value, Tensor):
        return value
    dims = 0  # of the batches around it
    while isinstance(value._data, Wrapper):
        dims += isinstance(value._data, Batched)
        value = value._data.value
    value = value.detach()
    for _ in range(dims):
        value = value.select(0, 0) if value.shape[0] else value.new_ones(value.shape[1:])
    return value


def _is_traced(value: Any) -> bool:
    return isinstance(value, (Tensor, TracedNumber))


class Later:
    """What a recorder makes of functions that are called later."""

    def __init__(self, recorder: Any) -> None:
        self.recorder, self.ctx = recorder, recorder.ctx

    # ---- transforms
    def transform(
        self, name: str, function: Callable[..., Any], options: dict[str, Any], args: Sequence[Any],
        kwargs: dict[str, Any], drawn: list[Any] | None = None,
    ) -> Any:
        """A call of a function of functions with `function` and these arguments: one node. drawn: of one that calls the
        function once more behind another call, where the stream of random numbers was before that one, if it draws."""
        arguments, leaves = self._taken_apart(name, (tuple(args), kwargs), _is_traced)
        settings, _ = self._taken_apart(name, options, lambda value: False)
        operands = [self.recorder.left(leaf).operand for leaf in leaves]
        spy = Spy(function)
        with self.ctx.pause():
            plain_args, plain_kwargs = unwrapped((tuple(args), kwargs))
            result = unwrapped(transformed(name, spy, options)(*plain_args, **plain_kwargs))
        if spy.form is None:
            self.recorder.refuse(f"{name} did not call its function on the example, so it cannot be recorded")
        with self._block() as inner:
            taken_args, taken_kwargs = put_together(spy.form, [self._entered(inner, e) for e in spy.examples])
            with enable_grad():
                returned, results = self._taken_apart(name, function(*taken_args, **taken_kwargs), _is_traced)
                block = self._ended(inner, results)
        form = {"given": arguments, "options": settings, "taken": spy.form, "returned": returned}
        _, tensors = self._taken_apart(name, result, is_tensor)
        if drawn and any(map(_has_generator, block.walk())):
            self.recorder.refuse(
                f"{name}: the function draws from a generator that it names, and would move it on twice; draw outside "
                "of the function, or from the default generator"
            )
        with self._drawing(block, drawn):
            return self._bound("prim::Transform", (name, to_text(form), tuple(operands)), block, result, tensors)

    @contextmanager
    def _drawing(self, block: Block, drawn: list[Any] | None) -> Iterator[None]:
        """What is recorded within draws from where the call before it did; the first one notes where that is."""
        if drawn is None or not any(map(draws, block.nodes)):
            yield
            return
        now = self.ctx.prim("random_state", PLACE)
        if drawn:
            self.ctx.prim("set_random_state", PLACE, *drawn)
        yield
        if drawn:
            self.ctx.prim("set_random_state", PLACE, now)
        else:
            drawn.append(now)

    # ---- custom Functions
    def custom_function(self, function: type[Function], args: tuple[Any, ...]) -> Any:
        """A call of a custom Function: its forward as it runs, then a node with its backward."""
        ctx = FunctionCtx(tuple(isinstance(a, Tensor) and a.dtype.is_differentiable for a in args))
        with self.ctx.pause():
            examples = function._apply(*unwrapped(args))
        with no_grad():
            output = run_rules(function, ctx, args)
        if ctx._dirty:
            self.recorder.refuse(
                f"{function.__name__}: a custom Function that writes its inputs (mark_dirty) cannot be recorded; "
                "return a new tensor"
            )
        is_single = not isinstance(output, tuple)
        outputs = (output,) if is_single else output
        plain = (examples,) if is_single else examples
        places = [i for i, o in enumerate(outputs) if isinstance(o, Tensor)]
        tensors = [outputs[i] for i in places]
        carries = [
            t.dtype.is_differentiable and not any(t is other for other in ctx._without_grad) for t in tensors
        ]
        inputs = [a for a in args if isinstance(a, Tensor)]
        if not any(carries) or not any(ctx.needs_input_grad):
            return output
        before = [self.recorder.left(v).operand for v in (*inputs, *tensors)]
        with self._block() as inner:
            grads = [self._gradient(inner, plain[i]) if c else None for i, c in zip(places, carries, strict=True)]
            places_of = dict(zip(places, grads, strict=True))
            rule = function.backward if function.vjp is Function.vjp else function.vjp
            gradients = self._gradients_of(rule, ctx, [places_of.get(i) for i in range(len(outputs))])
            per_input = [g for a, g in zip(args, (*gradients, *(None,) * len(args)), strict=False)
                         if isinstance(a, Tensor)]  # fmt: skip
            block = self._ended(inner, [g for g in per_input if g is not None])
        form = to_text({
            "carries": carries, "gives": [g is not None for g in per_input],
            "once": bool(getattr(rule, "gives_once", False)),
        })  # fmt: skip
        count = len(inputs)
        operands = (form, tuple(before[:count]), tuple(before[count:]))
        bound = self._bound("prim::WithBackward", operands, block, plain, [plain[i] for i in places])
        return bound[0] if is_single else bound

    def _gradients_of(self, rule: Callable[..., Any], ctx: FunctionCtx, grads: list[Any]) -> tuple[Any, ...]:
        """What the backward of a custom Function gives. One that raises is the program's to raise where it runs:
        many Functions have none, and are traced for what they compute."""
        try:
            returned = rule(ctx, *grads)
        except WeftError:  # what cannot be recorded, say
            raise
        except Exception as error:
            kind = type(error).__name__
            is_python = type(error) is getattr(builtins, kind, None)
            message = str(error) if is_python else f"{kind}: {error}"
            texts = [constant(message, tt.STR), constant(kind if is_python else "RuntimeError", tt.STR)]
            self.ctx.prim("RaiseException", PLACE, *texts)
            return ()
        return returned if isinstance(returned, tuple) else (returned,)

    # ---- hooks
    def hook(self, tensor: Any, function: Callable[[Tensor], Any]) -> Any:
        """A hook of a tensor, for each run of the program."""
        target = self.recorder.left(tensor).operand
        plain = unwrapped(tensor)
        with self.ctx.pause():
            plain.register_hook(function)
        with self._block() as inner, self.recorder:  # which is not asked while it answers
            returned = function(self._gradient(inner, plain))
            block = self._ended(inner, [] if returned is None else [returned])
        self.ctx.append(self.ctx.op("prim::Hook"), (target,), (), PLACE, (block,))
        return _Handle()

    # ---- blocks
    def _taken_apart(self, name: str, held: Any, is_value: Callable[[Any], bool]) -> tuple[Form, list[Any]]:
        try:
            return taken_apart(held, is_value)
        except ArgumentError as error:
            problem = f"{name}: {error}"
        return self.recorder.refuse(problem)  # type: ignore[no-any-return]

    @contextmanager
    def _block(self) -> Iterator[Builder]:
        """What is recorded within goes into a block. Whoever calls it later says what the grad mode is."""
        recorder = self.recorder
        recorder.follow_grad_mode(is_grad_enabled())
        before = (recorder.grad_mode, recorder.first_grad_mode, recorder.mode_around)
        with self.ctx.block() as inner, enable_grad():
            recorder.grad_mode, recorder.first_grad_mode, recorder.mode_around = True, True, None
            try:
                yield inner
            finally:
                recorder.grad_mode, recorder.first_grad_mode, recorder.mode_around = before

    def _entered(self, inner: Builder, example: Any) -> Any:
        """A parameter of the block as the function sees it."""
        if isinstance(example, Tensor):
            return self.recorder.tensor(example, Simple(inner.param(tt.TENSOR), tt.TENSOR))
        kind = tt.INT if isinstance(example, int) else tt.FLOAT
        return TracedNumber.of(self.recorder, example, Simple(inner.param(kind), kind))

    def _gradient(self, inner: Builder, example: Tensor) -> Any:
        """A parameter that is a gradient, of which the example is another value of the same form."""
        with self.ctx.pause():
            gradient = example.detach().clone()
        return self._entered(inner, gradient)

    def _ended(self, inner: Builder, results: Sequence[Any]) -> Block:
        operands = [self.recorder.left(r).operand for r in results]
        self.recorder.follow_grad_mode(True)
        return inner.block(operands)

    def _bound(self, op: str, args: tuple[Any, ...], block: Block, result: Any, examples: Sequence[Tensor]) -> Any:
        """The node's results, in the places where the example has them."""
        node = self.ctx.append(self.ctx.op(op), args, (tt.TENSOR,) * len(examples), PLACE, (block,))
        form, _ = taken_apart(result, is_tensor)
        pairs = zip(examples, node.outputs, strict=True)
        return put_together(form, [self.recorder.bound(Simple(o, tt.TENSOR), t) for t, o in pairs])


def _has_generator(node: Node) -> bool:
    """Whether a node draws from a generator that it is given."""
    if node.op.effect != "random":
        return False
    pairs = zip(node.op.schema.arguments, node.args, strict=False)
    return any(declared.name == "generator" and a is not None for declared, a in pairs)


class _Handle:
    """What register_hook gives within a trace."""

    def remove(self) -> None:
        """Refused: the program cannot say when."""
        raise CompileError("weft.jit.trace: a hook that is registered in a trace stays; do not register it")
