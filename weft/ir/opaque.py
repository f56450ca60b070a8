"""Opaque backward calls: each built-in node of autograd is one operator `autograd::MulBackward0(grads, needs, packed)`
until a pass opens it.

All have one signature. Evaluating one runs the same formulas that eager runs; opening one runs them through a builder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.ir.graph import Node, Value
from weft.ops.array import Array, unwrap, wrap
from weft.ops.backward import Plan, flat_gradients, plans_of
from weft.ops.op import NOT_DIFFERENTIABLE, OPS, Op, define, defining
from weft.ops.packet import aten
from weft.ops.route import default_route
from weft.ops.rules import refuse_unfit
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.dtype import DType
from weft.types.tensor_type import TENSOR, tensor_type

_PLANS: dict[Op, Plan] = {}
_OPAQUE: dict[Plan, Op] = {}


def opaque_op(plan: Plan) -> Op:
    """The opaque operator of a forward operator's node."""
    opaque = _OPAQUE.get(plan)
    if opaque is None:
        with defining:
            opaque = _OPAQUE.get(plan) or _define(plan)
    return opaque


def _define(plan: Plan) -> Op:
    forward = plan.op
    name = f"autograd::{opaque_base(plan)}"
    op = define(
        f"{name}(Object[] grads, bool[] needs, Object[] packed) -> Object[]",
        f"The gradient of {forward.name}: cotangents, wanted inputs and saved values in; "
        "one gradient per input out.",
        type=lambda *args: TENSOR,
        kernel=lambda grads, needs, packed: _evaluate(plan, grads, needs, packed),
        vjp=NOT_DIFFERENTIABLE,
        # (a formula of theirs may call them again)
        effect=forward.effect if forward.effect in ("io", "python") else "pure",
        public=(),
        origin=forward.origin,  # its formulas are written there
    )
    _PLANS[op] = plan
    _OPAQUE[plan] = op
    return op


def opaque_base(plan: Plan) -> str:
    """`MulBackward0`; outside aten the namespace and overload follow, so that the name says which operator
    is meant in every process."""
    schema = plan.op.schema
    if schema.namespace == "aten":
        return plan.name
    return "_".join(part for part in (plan.name, schema.namespace, schema.overload) if part)


def find_opaque(name: str) -> Op | None:
    """The opaque operator of this name (`autograd::MulBackward0`), made if nobody asked for it yet;
    None if no operator has such a node."""
    if name in OPS:
        return OPS[name]
    for forward in list(OPS.values()):
        for plan in plans_of(forward) if forward.is_differentiable else ():
            if f"autograd::{opaque_base(plan)}" == name:
                return opaque_op(plan)
    return None


def plan_of_opaque(op: Op) -> Plan | None:
    """The plan behind an opaque operator, or None for any other."""
    return _PLANS.get(op)


def forward_nodes(nodes: Sequence[Node]) -> dict[Node, Node]:
    """For the backward calls among nodes that run one after another, the node whose gradient each is: of its operator,
    with a value that it has saved, the one that the fewest such nodes have; or whose result the node reads from which
    the gradient comes."""
    users: dict[tuple[Op, Value], list[Node]] = {}
    forwards: dict[Node, Node] = {}
    for node in nodes:
        plan = plan_of_opaque(node.op)
        if plan is None:
            for value in (*node.needs(), *node.outputs):
                users.setdefault((node.op, value), []).append(node)
            continue
        near = [users[plan.op, value] for value in node.inputs() if (plan.op, value) in users]
        if near:
            forwards[node] = min(near, key=len)[-1]
            continue
        source = _origin(node.inputs()[:1])
        forward = None if source is None else forwards.get(source)
        for value in forward.inputs() if forward is not None else ():
            if value.node is not None and value.node.op is plan.op:
                forwards[node] = value.node
    return forwards


def _origin(grads: Sequence[Value]) -> Node | None:
    """The backward call that a gradient comes from, through checks and sums."""
    while grads:
        node = grads[0].node
        if node is None or node.op in _PLANS:
            return node
        grads = node.inputs()[:1]
    return None


def _evaluate(plan: Plan, grads: Any, needs: Any, packed: Any) -> Any:
    with default_route(Array.__weft_route__):
        return tuple([None if r is None else unwrap(r) for r in flat_gradients(plan, wrap(grads), needs, wrap(packed))])


def _fit(g: Any, dims: tuple[Dim, ...], dtype: DType) -> Any:
    """A gradient summed to `dims` and cast to `dtype`, by operators; zeros for one that a formula does not give."""
    if g is None:
        return aten.zeros(dims, dtype=dtype)
    if not (len(g.dims) == len(dims) and all(map(shape_env.same_when_summed, g.dims, dims))):
        refuse_unfit("A function returned an invalid gradient", g.dims, dims)
        g = aten.sum_to_size(g, dims)
    if g.dtype is not dtype:
        g = aten._to_copy(aten.real(g) if g.dtype.is_complex and not dtype.is_complex else g, dtype)
    return g


VALIDATE = define(
    "autograd::validate_outputs(Tensor grad, int[] dims, ScalarType dtype) -> Tensor",
    "The gradient summed to the sizes and cast to the dtype of the tensor it belongs to.",
    type=lambda grad, dims, dtype: tensor_type(dtype, tuple(dims)),
    decompose=_fit,
    vjp=NOT_DIFFERENTIABLE,
    public=(),
)

STOP_GRADIENT = define(
    "autograd::stop_gradient(Tensor self) -> Tensor",
    "The value without its history: no gradient flows through it.",
    type=lambda self: self,
    decompose=lambda self: self,
    vjp=NOT_DIFFERENTIABLE,
    public=(),
)

WITH_HISTORY = define(
    "autograd::with_history(Tensor self, Tensor earlier) -> Tensor",
    "The value with the history of another one: its gradient flows into `earlier`.",
    type=lambda self, earlier: self,
    decompose=lambda self, earlier: self,
    vjp={"earlier": lambda g: g},
    public=(),
)

CALL_FUNCTION = define(
    "autograd::call_function(Object[] outputs, Object[] inputs, Object[] read, Object rule) -> Object[]",
    "The outputs of a custom Function. Gradients flow into the inputs, as `rule` has it: the graph of its backward, "
    "a function of the outputs' gradients, the outputs, and what else the backward reads.",
    type=lambda outputs, inputs, read, rule: tuple(outputs),
    decompose=lambda outputs, inputs, read, rule: tuple(outputs),
    vjp=NOT_DIFFERENTIABLE,
    public=(),
)

WHERE_REACHED = define(
    "autograd::where_reached(Tensor hooked, Tensor passed, Object[] waits_for) -> Tensor",
    "What a hook made of a gradient (`hooked`), if the walk came to the node that the hook waits for: if some of "
    "`waits_for` is there. Else the gradient as it was (`passed`).",
    type=lambda hooked, passed, waits_for: hooked,
    kernel=lambda hooked, passed, waits_for: hooked,
    vjp={"hooked": lambda g: g},
    public=(),
)

ACCUMULATE = define(
    "autograd::accumulate_grad(Tensor present, Object has, Tensor grad) -> Tensor",
    "The new gradient of a leaf: present + grad if there is one already (`has`, decided when the program "
    "runs), else grad.",
    type=lambda present, has, grad: grad,
    decompose=lambda present, has, grad: aten.where(has, aten.add(present, grad), grad),
    vjp=NOT_DIFFERENTIABLE,
    public=(),
)
