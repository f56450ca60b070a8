"""What a captured backward holds besides opaque nodes: the ends of CopySlices, and calls of Python (hooks,
custom Functions, leaves that accumulate).

Which hook, node or leaf is meant is an input of the graph, never part of it. The calls take tensors, not arrays,
so only what walks a graph with tensors can run them (weft.compiled_autograd.interpret).
"""

from __future__ import annotations

from typing import Any

from weft.ops.op import NOT_DIFFERENTIABLE, Op, define
from weft.support.errors import StateError
from weft.types.tensor_type import TENSOR


def _needs_tensors(*args: Any) -> Any:
    raise StateError(
        "a captured backward that calls Python is run by weft.compiled_autograd.interpret, which has tensors"
    )


def _call(schema: str, doc: str, effect: str) -> Op:
    return define(
        schema, doc, type=lambda *args: TENSOR, kernel=_needs_tensors, vjp=NOT_DIFFERENTIABLE, effect=effect, public=()
    )


def _python(schema: str, doc: str) -> Op:
    return _call(schema, doc, "python")


PROLOGUE = _call(
    "autograd::copy_slices_prologue(Tensor grad, Object path) -> Tensor",
    "The part of a base's gradient that a view shows, which a write replaced.", "pure",
)
EPILOGUE = _call(
    "autograd::copy_slices_epilogue(Tensor grad, Tensor shown, Object into_self, Object path) -> Tensor",
    (
        "The base's gradient with the write's own gradient (zeros, if there is none) in place of the part that "
        "the view shows."
    ),
    "pure"
)


PROGRAM_PROLOGUE = _call(
    "autograd::program_prologue(Object[] grads, Object[] missing) -> Object[]",
    "The gradients of a compiled forward's results, zeros of given sizes and dtype for those that are missing.",
    "pure",
)
SIZE_OF = _call(
    "autograd::size_of(str text, str[] names, int[] values) -> int",
    "A size of a copied program: the expression of this text, with values for the symbols of these names.",
    "pure",
)


CALL_BACKWARD = _python(
    "autograd::call_backward(Object node, Object[] grads, bool[] needs) -> Object[]",
    "The gradients that a node of the user's (a custom Function, a compiled forward) gives for its edges.",
)
MAKE_SUBCLASS_CALL = _python(
    "autograd::make_subclass(Object node, Object[] inner) -> Tensor",
    "The gradient of a wrapper that a compiled function took apart: a wrapper of its inner tensors' gradients.",
)
INNER_TENSORS_CALL = _python(
    "autograd::inner_tensors(Object node, Object[] grads, bool[] needs) -> Object[]",
    "The gradients of the inner tensors that a wrapper was made of: those of a gradient of its class.",
)
TENSOR_HOOK_CALL = _python(
    "autograd::tensor_hook(Object hook, Object grad) -> Object",
    "A gradient, or what a hook on its tensor puts in its place.",
)
RETAIN_GRAD = _python(
    "autograd::retain_grad(Object hook, Tensor grad) -> Object",
    "Keeps a gradient for `.grad` of a tensor that is no leaf.",
)
PRE_HOOK_CALL = _python(
    "autograd::pre_hook(Object hook, Object[] grads) -> Object[]",
    "A node's incoming gradients, or what a hook puts in their place.",
)
POST_HOOK_CALL = _python(
    "autograd::post_hook(Object hook, Object[] gradients, Object[] grads) -> Object[]",
    "What a node gave for its edges, or what a hook puts in its place.",
)
ACCUMULATE_LEAF = _python(
    "autograd::accumulate(Object node, Tensor grad, bool calls_hooks) -> Object",
    "Adds a gradient to `.grad` of a leaf by eager's rules. calls_hooks: whether hooks of the user's follow.",
)
UNPACK_HOOK = _python(
    "autograd::unpack_hook(Object saved, Object node) -> Tensor", "What a saved tensor's unpack hook gives back."
)
CHECK_GRADIENT = _python(
    "autograd::validate_outputs.of_node(Object node, int index, Tensor grad, int[] dims, ScalarType dtype) -> Tensor",
    "A gradient that Python gave, made to fit the tensor it belongs to, or refused in the node's name.",
)
