"""weft.cond and weft.while_loop: choices and loops that hang on values. Outside of a capture they are Python's; inside they become prim::If and prim::Loop.

A branch or body is recorded into a block of its own. It may read any tensor (arguments, closures, state); it may not write tensors made outside.
The backward recomputes: that of a branch inside the branch, that of a loop from the carried values of each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.autograd.node import InputMetadata, Node
from weft.autograd.record import gradient_edge
from weft.compile.random_state import go_to, places
from weft.ir.builder import Handle
from weft.ir.graph import Block, Value
from weft.ir.graph import Node as GraphNode
from weft.ir.structure import IF, LOOP
from weft.layers.transforms.level import top
from weft.ops.packet import aten
from weft.passes.differentiate import pull_back
from weft.support import pytree
from weft.support.errors import ArgumentError, CaptureError, Unsupported
from weft.support.locations import user_location
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.tensor_type import INT, TensorType, Type

if TYPE_CHECKING:
    from weft.compile.capture import Capture

ENDLESS = 2**62  # trip count of a loop that only its condition stops


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """`true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`.

    pred: a bool or a tensor with one element. In a compiled function the choice is made each time the program runs: both functions are recorded and must
    return the same structure of tensors, with the same shapes and dtypes. Raises CaptureError if they do not.
    """
    capture = modes.capture
    if isinstance(pred, Tensor) and getattr(pred._data, "differs", False):
        return _for_each(pred, true_fn(*operands), false_fn(*operands))
    if capture is None or not isinstance(pred, Tensor):
        return true_fn(*operands) if pred else false_fn(*operands)
    _refuse_under_transforms(capture, "cond")
    condition = capture.operand(_one_element(pred))
    reads: dict[Value, Tensor] = {}
    blocks: list[Block] = []
    specs: list[pytree.TreeSpec] = []
    orders: list[list[Any]] = []
    start, drawn = places(capture.random), []
    for fn in (true_fn, false_fn):
        go_to(capture.random, start)  # only one branch runs: both draw from here
        with capture.block() as (inner, mine):
            leaves, spec = pytree.flatten(fn(*operands))
            blocks.append(inner.block([_value(capture, leaf) for leaf in leaves]))
            specs.append(spec)
            orders.append([capture.order_of(leaf) for leaf in leaves])
        drawn.append(places(capture.random))
        reads |= mine
    if drawn[0] != drawn[1]:
        raise capture.refuse("cond: the branches draw different amounts of random numbers; draw them before it and pass them in")
    if specs[0] != specs[1]:
        raise capture.refuse(f"cond: the branches return different structures, {specs[0]!r} and {specs[1]!r}")
    types = tuple(r.type for r in blocks[0].results)
    _check_types(capture, "cond: the branches return", types, blocks[1].results)
    node = capture.builder.emit_raw(IF, (condition,), types, tuple(blocks), user_location(2))
    outputs = [capture.fresh(v, a if a == b else None) for v, a, b in zip(node.outputs, *orders, strict=True)]
    _attach(CondBackward, capture, node, reads, outputs)
    return pytree.unflatten(outputs, specs[0])


def _for_each(pred: Tensor, chosen: Any, other: Any) -> Any:
    """Within vmap, a choice that differs from example to example: both are computed, and each example takes its own."""
    leaves, spec = pytree.flatten(chosen)
    others, other_spec = pytree.flatten(other)
    if spec != other_spec:
        raise ArgumentError(f"cond: the branches return different structures, {spec!r} and {other_spec!r}")
    holds = aten.reshape(_one_element(pred), ())
    return pytree.unflatten([aten.where(holds, a, b) for a, b in zip(leaves, others, strict=True)], spec)


def _refuse_under_transforms(capture: Capture, name: str) -> None:
    """A branch of a graph knows nothing of the levels that interpret operators above the capture."""
    if top() is not None:
        raise capture.refuse(
            f"weft.{name} inside of a transform (grad, vmap, jvp) that runs in a compiled function: apply the transform within the branches, choose "
            "with weft.where, or call the transform outside of the compiled function"
        )


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried: Sequence[Any]) -> tuple[Any, ...]:
    """`while cond_fn(*carried): carried = body_fn(*carried)`; returns the carried tensors at the end, as a tuple.

    Numbers among the carried values become 0-dim tensors. In a compiled function the number of steps is found each time the program runs; the body must
    keep shapes and dtypes. Raises CaptureError if it does not.
    """
    capture = modes.capture
    if capture is not None:
        _refuse_under_transforms(capture, "while_loop")
    start = [c if isinstance(c, Tensor) else _number(capture, c) for c in carried]
    if capture is None:
        while cond_fn(*start):
            start = list(_several(body_fn(*start)))
        return tuple(start)
    return _record_loop(capture, cond_fn, body_fn, start)


def _record_loop(capture: Capture, cond_fn: Callable[..., Any], body_fn: Callable[..., Any], start: list[Any]) -> tuple[Any, ...]:
    first = _condition(capture, cond_fn, start)
    initial = (*(capture.operand(c) for c in start), capture.builder.constant(np.array(0)))
    types = tuple(v.type for v in initial)
    drawn = places(capture.random)
    with capture.block() as (inner, reads):
        inner.param(INT, "step")
        params = [inner.param(t) for t in types]
        following = _several(body_fn(*(capture.fresh(p) for p in params[:-1])))
        values = [_value(capture, f) for f in following]
        _check_types(capture, "while_loop: the body returns", types[:-1], values)
        with inner.active():
            steps = aten.add(Handle(params[-1], inner), 1).value
        block = inner.block((_condition(capture, cond_fn, following), *values, steps))
    if places(capture.random) != drawn:
        raise capture.refuse("while_loop: the body draws random numbers, whose amount hangs on the number of steps; draw them before it and pass them in")
    node = capture.builder.emit_raw(LOOP, (ENDLESS, first, initial, (), False), types, (block,), user_location(3))
    outputs = [capture.fresh(v) for v in node.outputs[:-1]]
    reads |= {v: t for v, t in zip(initial, start, strict=False) if t.requires_grad}
    _attach(WhileLoopBackward, capture, node, reads, outputs)
    return tuple(outputs)


# ---- values
def _one_element(pred: Tensor) -> Any:
    return pred if pred.ndim == 0 else aten.reshape(pred, ())


def _condition(capture: Capture, cond_fn: Callable[..., Any], carried: Sequence[Any]) -> Any:
    found = cond_fn(*carried)
    return capture.operand(_one_element(found)) if isinstance(found, Tensor) else bool(found)


def _several(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _value(capture: Capture, leaf: Any) -> Value:
    found = capture.operand(leaf if isinstance(leaf, Tensor) else _number(capture, leaf))
    assert isinstance(found, Value)
    return found


def _number(capture: Capture | None, number: Any) -> Tensor:
    if not isinstance(number, (bool, int, float)):
        raise ArgumentError(f"control flow carries tensors and numbers, not {type(number).__name__}")
    dtype = dt.bool_ if isinstance(number, bool) else dt.int64 if isinstance(number, int) else dt.get_default()
    array = np.array(number, dtype.numpy)
    return Tensor(array) if capture is None else capture.fresh(capture.builder.constant(array))


def _check_types(capture: Capture, what: str, types: Sequence[Any], values: Sequence[Value]) -> None:
    found = [v.type for v in values]
    if len(found) != len(types) or not all(_agree(capture, a, b) for a, b in zip(types, found, strict=True)):
        raise capture.refuse(f"{what} {', '.join(map(str, found))} where {', '.join(map(str, types))} is expected")


def _agree(capture: Capture, a: Type, b: Type) -> bool:
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return a is b
    return a.dtype is b.dtype and a.ndim == b.ndim and all(capture.env.equal(x, y) for x, y in zip(a.shape, b.shape, strict=True))


# ---- histories
class ControlBackward(Node):
    """The history of what a branch or loop returned: its edges lead to every tensor that the blocks read."""

    def __init__(self, capture: Capture, node: GraphNode, targets: dict[Value, Tensor]) -> None:
        super().__init__(tuple(gradient_edge(t) for t in targets.values()))
        self.capture, self.node, self.targets = capture, node, tuple(targets)

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        """One gradient per edge."""
        capture = self.capture
        if modes.capture is not capture:
            raise CaptureError(f"{self.name()}: the function that recorded this branch or loop is over")
        if modes.grad:
            raise Unsupported(f"{self.name()}: create_graph=True through weft.cond and weft.while_loop; differentiate the graph instead")
        cotangents = {i: capture.operand(g) for i, g in enumerate(grads) if g is not None}
        found = iter(pull_back(capture.builder, self.forward(), cotangents, [t for t, wanted in zip(self.targets, needs, strict=True) if wanted]))
        return tuple(capture.fresh(next(found)) if wanted else None for wanted in needs)

    def forward(self) -> GraphNode:
        """The node whose blocks are run backwards."""
        return self.node


class CondBackward(ControlBackward):
    """The history of weft.cond."""


class WhileLoopBackward(ControlBackward):
    """The history of weft.while_loop: run again for as many steps as were made, counted by its last carried value."""

    def forward(self) -> GraphNode:
        """The loop with a trip count instead of a condition."""
        node = self.node
        _, _, carried, xs, reverse = node.args
        (block,) = node.blocks
        counted = Block(block.params, block.nodes, (True, *block.results[1:]))
        return GraphNode(LOOP, (node.outputs[-1], True, carried, xs, reverse), tuple(v.type for v in node.outputs), (counted,), node.where)


def _attach(kind: type[ControlBackward], capture: Capture, node: GraphNode, reads: dict[Value, Tensor], outputs: list[Tensor]) -> None:
    targets = {v: t for v, t in reads.items() if v.tensor_type.dtype is not None and v.tensor_type.dtype.is_differentiable}
    if not modes.grad or not targets:
        return
    history = kind(capture, node, targets)
    for i, out in enumerate(outputs):
        history.metadata_of_inputs.append(InputMetadata(out.dims, out.dtype))
        if out.dtype.is_differentiable:
            out._autograd = AutogradState(False, history, i)
