"""Steps of a program whose block is a function that others call: functions of functions (weft.func.grad), backwards of
custom Functions, hooks.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from weft.autograd.function import Function, once_differentiable
from weft.ir.graph import Node
from weft.jit.interpreter.later.forms import from_text, put_together, taken_apart
from weft.jit.interpreter.steps import Registers, Step, StepMaker
from weft.support.errors import ArgumentError, ShapeError
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

_CALLED: dict[str, Callable[[Any], Any]] = {  # of what a transform gives, what a node calls
    "weft.func.vjp": lambda applied: lambda *primals: _without_second(applied(*primals)),
    "weft.func.vjp()": lambda applied: lambda primals, cotangents: applied(*primals)[1](cotangents),
    "weft.func.linearize": lambda applied: lambda *primals: applied(*primals)[0],
    "weft.func.linearize()": lambda applied: lambda primals, tangents: applied(*primals)[1](*tangents),
}
CHECKPOINT = "weft.utils.checkpoint.checkpoint"
_OF_ARGUMENTS = (
    "weft.func.vjp", "weft.func.linearize", "weft.func.jvp", "weft.autograd.functional.", CHECKPOINT,
)  # those that call the function at once
TRANSFORMS = frozenset(
    (
        CHECKPOINT, *_CALLED,
        *(f"weft.func.{n}" for n in ("grad_and_value", "jacrev", "jacfwd", "vmap", "functionalize", "jvp")),
        *(f"weft.autograd.functional.{n}" for n in ("jacobian", "hessian", "vjp", "jvp", "vhp", "hvp")),
    )
)  # fmt: skip


def transformed(name: str, function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    """What the transform of this name makes of a function: what is called with a node's arguments. Raises ArgumentError
    for a name that is none."""
    if name not in TRANSFORMS:
        raise ArgumentError(f"weft.jit: {name!r} is no function of functions that a program calls")
    space, _, own = name.removesuffix("()").rpartition(".")
    transform = getattr(importlib.import_module(space), own)
    if name.startswith(_OF_ARGUMENTS):
        applied = functools.partial(transform, function, **options)
    else:
        applied = transform(function, **options)
    return _CALLED[name](applied) if name in _CALLED else applied


def _without_second(results: tuple[Any, ...]) -> Any:
    return (results[0], *results[2:])


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor: what a transform's results consist of."""
    return isinstance(value, Tensor)


def is_argument(value: Any) -> bool:
    """Whether a value is one that a function is given as a parameter of its block: a tensor or number."""
    return isinstance(value, Tensor) or (isinstance(value, (int, float)) and not isinstance(value, bool))


# ---- steps
def transform(code: StepMaker, node: Node) -> Step:
    """A call of a function of functions with the block as its function."""
    name, form, read = node.args[0], from_text(node.args[1]), code.reader(node.args[2])
    body = code.steps_of(node.blocks[0])
    outputs = [code.place(v) for v in node.outputs]

    def step(registers: Registers) -> None:
        def called(*args: Any, **kwargs: Any) -> Any:
            taken, values = taken_apart((args, kwargs), is_argument)
            if taken != form["taken"]:
                raise ShapeError(f"{name}: the function of the trace takes other arguments than these")
            inside = registers.copy()
            for place, value in zip(body.params, values, strict=True):
                inside[place] = value
            body.run(inside)
            return put_together(form["returned"], list(body.results(inside)))

        args, kwargs = put_together(form["given"], read(registers))
        options = put_together(form["options"], ())
        result = transformed(name, called, options)(*args, **kwargs)
        _, values = taken_apart(result, is_tensor)
        for out, value in zip(outputs, values, strict=True):
            registers[out] = value

    return step


class _Backward:
    """The block of one node: from values from outside and gradients of outputs to gradients of inputs."""

    def __init__(self, code: StepMaker, node: Node) -> None:
        form = from_text(node.args[0])
        self.carries, self.gives = form["carries"], form["gives"]
        (self.block,) = node.blocks
        self.body, self.code = code.steps_of(self.block), code
        self.outside = tuple(self.block.free_values())
        self.places = [code.place(v) for v in self.outside]
        self.of_outputs = [node.args[2].index(v) if v in node.args[2] else None for v in self.outside]
        self.function = _OnceTraced if form["once"] else _Traced

    def __call__(self, kept: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
        inside = self.code.template.copy()
        for place, value in zip((*self.places, *self.body.params), (*kept, *grads), strict=True):
            inside[place] = value
        self.body.run(inside)
        gradients = iter(self.body.results(inside))
        return [next(gradients) if gives else None for gives in self.gives]


class _Call:
    """What one call of such a node has apart from tensors: how many inputs there are, and what lies outside of the
    block (None in place of each tensor)."""

    def __init__(self, backward: _Backward, inputs: int, others: list[Any]) -> None:
        self.backward, self.inputs, self.others = backward, inputs, others


class _Traced(Function):
    """A custom Function of a trace: its outputs are there already. Takes the call, inputs, outputs, then the tensors
    that the backward reads."""

    generate_vmap_rule = True

    @staticmethod
    def forward(call: _Call, *tensors: Any) -> Any:
        return tuple([t.detach() for t in tensors[call.inputs : call.inputs + len(call.backward.carries)]])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        call, *tensors = inputs
        ctx.call, backward = call, call.backward
        ctx.count = len(tensors)
        kept = iter(tensors[call.inputs + len(backward.carries) :])
        places = [p for p, o in zip(backward.of_outputs, call.others, strict=True) if o is _TENSOR]
        ctx.save_for_backward(*[t if p is None else output[p] for p, t in zip(places, kept, strict=True)])
        ctx.mark_non_differentiable(*[o for o, carries in zip(output, backward.carries, strict=True) if not carries])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        call, saved = ctx.call, iter(ctx.saved_tensors)
        kept = [next(saved) if o is _TENSOR else o for o in call.others]
        carried = [g for g, carries in zip(grads, call.backward.carries, strict=True) if carries]
        gradients = call.backward(kept, carried)
        return (None, *gradients, *(None,) * (ctx.count - call.inputs))


class _OnceTraced(_Traced):
    """One whose backward was marked with once_differentiable."""

    backward = staticmethod(once_differentiable(_Traced.backward))


_TENSOR = object()  # stands among what lies outside of a block where there is a tensor


def with_backward(code: StepMaker, node: Node) -> Step:
    """Outputs with a history whose backward is the block."""
    read = code.reader((*node.args[1], *node.args[2]))
    count = len(node.args[1])
    backward = _Backward(code, node)
    outputs = [code.place(v) for v in node.outputs]

    def step(registers: Registers) -> None:
        kept = [registers[p] for p in backward.places]
        others = [_TENSOR if isinstance(k, Tensor) else k for k in kept]
        tensors = [k for k in kept if isinstance(k, Tensor)]
        call = _Call(backward, count, others)
        results = backward.function.apply(call, *read(registers), *tensors)
        for out, value in zip(outputs, results, strict=True):
            registers[out] = value

    return step


def hook(code: StepMaker, node: Node) -> Step:
    """A hook of a tensor, if gradients reach it."""
    (place,) = [code.place(v) for v in node.args[:1]]
    (block,) = node.blocks
    body = code.steps_of(block)
    places = [code.place(v) for v in block.free_values()]

    def step(registers: Registers) -> None:
        tensor = registers[place]
        if not (tensor.requires_grad and modes.grad):
            return
        kept = [registers[p] for p in places]

        def called(grad: Tensor) -> Any:
            inside = code.template.copy()
            for at, value in zip((*places, *body.params), (*kept, grad), strict=True):
                inside[at] = value
            body.run(inside)
            results = body.results(inside)
            return results[0] if results else None

        tensor.register_hook(called)

    return step
