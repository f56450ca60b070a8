"""One node of a captured backward, on whatever its operands are: tensors (program.py) or values of a graph
that is being typed (specialize.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft.ir.graph as ir
from weft.autograd.node import InputMetadata, Node
from weft.autograd.run_hooks import call_post_hook, call_pre_hook, call_tensor_hook
from weft.autograd.saved import SavedTensor
from weft.autograd.validate import validate, wrong_count
from weft.autograd.views import gradient_of_view, write_path
from weft.functionalizer.writes import Path
from weft.ir.backward_calls import (
    ACCUMULATE_LEAF,
    CALL_BACKWARD,
    CHECK_GRADIENT,
    EPILOGUE,
    INNER_TENSORS_CALL,
    MAKE_SUBCLASS_CALL,
    POST_HOOK_CALL,
    PRE_HOOK_CALL,
    PROGRAM_PROLOGUE,
    PROLOGUE,
    RETAIN_GRAD,
    SIZE_OF,
    TENSOR_HOOK_CALL,
    UNPACK_HOOK,
)
from weft.ops.op import OPS, Op
from weft.ops.packet import aten
from weft.programs.on_tensors import evaluate_op
from weft.support.errors import WeftError
from weft.tensor.tensor import Tensor
from weft.types.dims import substitute
from weft.types.parse import parse_dim
from weft.types.tensor_type import NONE

Results = tuple[Any, ...]


def evaluate(op: Op, args: tuple[Any, ...]) -> Results:
    """The results of a node: what only a captured backward holds by the functions below, all else as in any graph."""
    function = _CALLS.get(op)
    return evaluate_op(op, args) if function is None else function(*args)


def calling(op: Op) -> tuple[Callable[..., Any], bool]:
    """evaluate() of one operator, on its operands; and whether it gives the one result that there is, not a tuple."""
    function = _ONE_RESULT.get(op)
    if function is not None:
        return function, True
    return _CALLS.get(op) or (lambda *args: evaluate_op(op, args)), False


# Formulas that give no gradient where one is wanted, because those that they read are not there: which ones,
# by what they were given. Found by running them.
_UNDEFINED: dict[Op, dict[Any, tuple[bool, ...]]] = {}
_epoch = [0]


def epoch() -> int:
    """How often that was found: what was written down before may be out of date."""
    return _epoch[0]


class Undefined(WeftError):
    """A formula gave fewer gradients than the captured graph goes by; from now on it is known which."""


Question = tuple[Any, tuple[bool, ...], Any]  # where gradients and saved values are None, and what is needed


def question(grads: Any, needs: tuple[bool, ...], packed: Any) -> Question:
    """What decides which gradients a formula gives."""
    return _absent(grads), needs, _absent(packed)


def undefined(op: Op, asked: Question) -> tuple[bool, ...] | None:
    """Which results of an opaque call are there, where it is known that not all are."""
    patterns = _UNDEFINED.get(op)
    return None if patterns is None else patterns.get(asked)


def evaluate_as(node: ir.Node, args: tuple[Any, ...]) -> Results:
    """The results of a pure node of a graph. Raises Undefined where others are there than the graph goes by."""
    results = evaluate(node.op, args)
    if any(r is None and v.type is not NONE for r, v in zip(results, node.outputs, strict=True)):
        grads, needs, packed = node.args
        _UNDEFINED.setdefault(node.op, {})[question(grads, needs, packed)] = tuple([r is not None for r in results])
        _epoch[0] += 1
        raise Undefined(f"{node.op.name}: no gradient where one was expected")
    return results


def _absent(operand: Any) -> Any:
    """Where an operand is None."""
    return tuple([_absent(o) for o in operand]) if type(operand) is tuple else operand is None


def _path(path: Any) -> Path:
    return tuple([(OPS[name], args, index) for name, args, index in path])


def _prologue(grad: Any, path: Any) -> Results:
    return (gradient_of_view(grad, _path(path)),)


def _epilogue(grad: Any, shown: Any, into_self: Any, path: Any) -> Results:
    return (write_path(grad, _path(path), aten.zeros_like(shown) if into_self is None else into_self),)


def _program_prologue(grads: tuple[Any, ...], missing: tuple[Any, ...]) -> Results:
    return tuple([
        aten.zeros(m[0], dtype=m[1]) if g is None else g for g, m in zip(grads, missing, strict=True)
    ])


def _size_of(text: str, names: tuple[str, ...], values: tuple[Any, ...]) -> Results:
    return (substitute(parse_dim(text), dict(zip(names, values, strict=True))),)


def _call_backward(node: Node, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> Results:
    out = node.apply(grads, needs)
    if len(out) != len(node.edges):
        raise wrong_count(node, out)
    return out


def _check(node: Node, index: int, grad: Any, dims: tuple[int, ...], dtype: Any) -> Any:
    if type(grad) is Tensor and grad._data.dtype is dtype.numpy and grad._data.shape == dims:
        return grad  # (no other payload has NumPy's dtypes)
    return validate(node.name(), index, grad, InputMetadata(dims, dtype), node.is_users)


def _accumulate(node: Node, grad: Any, calls_hooks: bool) -> Results:
    node.apply((grad,), ())
    return ()


def _retain(hook: Callable[[Any], Any], grad: Any) -> Results:
    hook(grad)
    return ()


def _unpack(saved: SavedTensor, node: Node) -> Any:
    return saved.unpack(node)


def _in_tuple(run: Callable[..., Any]) -> Callable[..., Results]:
    return lambda *args: (run(*args),)


_ONE_RESULT: dict[Op, Callable[..., Any]] = {
    TENSOR_HOOK_CALL: call_tensor_hook, CHECK_GRADIENT: _check, UNPACK_HOOK: _unpack,
}
_CALLS: dict[Op, Callable[..., Results]] = {
    PROLOGUE: _prologue,
    EPILOGUE: _epilogue,
    PROGRAM_PROLOGUE: _program_prologue,
    SIZE_OF: _size_of,
    CALL_BACKWARD: _call_backward,
    MAKE_SUBCLASS_CALL: lambda node, inner: node.apply(inner, (True,)),
    INNER_TENSORS_CALL: _call_backward,
    RETAIN_GRAD: _retain,
    PRE_HOOK_CALL: lambda hook, grads: call_pre_hook(hook, grads),
    POST_HOOK_CALL: lambda hook, gradients, grads: call_post_hook(hook, gradients, grads),
    ACCUMULATE_LEAF: _accumulate,
    **{op: _in_tuple(run) for op, run in _ONE_RESULT.items()},
}
