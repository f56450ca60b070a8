"""The verifier: what must hold of every graph. `verify(graph)` raises VerifyError with the lines around
the first offender.

    names      every value is defined once, before it is used, in the same block or an enclosing one
    operators  every node's operator is in the catalogue and has as many arguments as its schema says,
               of the kinds it says
    types      a node's result types are those that the entry's type rule gives for its arguments (they may know less)
    blocks     prim::If has two blocks without parameters, which yield what the node results in;
               prim::Loop has one block, with parameters (index, carried..., slices of xs...) and results (condition,
               carried..., slices of ys...); prim::Transform and its like have one, which others call
    writes     pair an existing result with an existing parameter of the same type; no parameter is written twice
"""

from __future__ import annotations

from typing import Any

from weft.ir.builder import Builder
from weft.ir.graph import Block, Graph, Node, Operand, Value, values_in
from weft.ir.kinds import KINDS, declared_types, type_of_argument, type_of_immediate
from weft.ir.opaque import plan_of_opaque
from weft.ir.printer import print_around
from weft.ir.structure import GRADIENTS_OF, GROUPS, IF, LATER, LOOP, WHOLE
from weft.ops.op import OPS
from weft.ops.rules import Pointwise
from weft.ops.schema import Argument
from weft.support.errors import CaptureError, VerifyError, WeftError
from weft.types import dtype as dt
from weft.types.dims import Dim, Expr, symbols
from weft.types.dtype import DType
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import (
    BOOL,
    DEVICE,
    DTYPE,
    GENERATOR,
    INT,
    LAYOUT,
    NONE,
    STR,
    TENSOR,
    ListType,
    SimpleType,
    TensorType,
    Type,
    optional,
    tensor_type,
)


def verify(graph: Graph, when: str = "") -> Graph:
    """The graph itself if it keeps every rule. Raises VerifyError;
    `when` says in it at which point the graph was looked at."""
    fault = first_fault(graph)
    if fault is not None:
        moment = f" ({when})" if when else ""
        raise VerifyError(f"graph @{graph.name}{moment}: {fault[0]}\n{print_around(graph, fault[1])}")
    return graph


def first_fault(graph: Graph) -> tuple[str, Node | None] | None:
    """What rule a graph breaks first, and at which node (None: at its border); None if it keeps them all."""
    try:
        _Verifier(graph).graph_rules()
    except _Broken as broken:
        return str(broken), broken.node
    return None


class _Broken(Exception):
    """A rule is broken at a node (None: at the graph's border)."""

    def __init__(self, text: str, node: Node | None = None) -> None:
        super().__init__(text)
        self.node = node


class _Verifier:
    """One look at one graph. Questions about sizes are answered by a copy of its environment,
    so that looking changes nothing."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        env = graph.env
        self.env = ShapeEnv(dict(env.examples), dict(env.guards), dict(env.counts))
        self.builder = Builder(graph.name, self.env)
        self.defined: set[Value] = set()

    # ---- scoping
    def graph_rules(self) -> None:
        """Every rule, in the order of the text."""
        self._block(self.graph.block, set(), None)
        self._writes()

    def _block(self, block: Block, outer: set[Value], owner: Node | None) -> None:
        scope = set(outer)
        for p in block.params:
            self._define(p, scope, owner)
        for node in block.nodes:
            self._node(node, scope)
        for result in block.results:
            self._uses(result, scope, owner, "a result of the block")

    def _define(self, value: Value, scope: set[Value], node: Node | None) -> None:
        if value in self.defined:
            raise _Broken(f"a value of type {value.type} is defined twice", node)
        self.defined.add(value)
        scope.add(value)

    def _uses(self, operand: Operand, scope: set[Value], node: Node | None, what: str) -> None:
        for value in values_in(operand):
            if value not in scope:
                reason = (
                    "is used outside of the block that defines it" if value in self.defined
                    else "is not defined before it is used"
                )
                raise _Broken(f"{what}, of type {value.type}, {reason}", node)

    def _node(self, node: Node, scope: set[Value]) -> None:
        self._operator(node)
        for argument, operand in zip(node.op.schema.arguments, node.args, strict=False):
            self._uses(operand, scope, node, f"argument {argument.name!r} of {node.op.name}")
            self._kind(node, argument, operand)
        for block in node.blocks:
            self._block(block, scope, node)
        self._types(node)
        for i, value in enumerate(node.outputs):
            if value.node is not node or value.index != i:
                raise _Broken(f"result {i} of {node.op.name} belongs to another node", node)
            self._define(value, scope, node)

    # ---- operators
    def _operator(self, node: Node) -> None:
        op = node.op
        if OPS.get(op.name) is not op:
            raise _Broken(f"{op.name} is not in the catalogue", node)
        if len(node.args) != len(op.schema.arguments):
            raise _Broken(
                f"{op.name} has {len(node.args)} arguments; {op.schema} takes {len(op.schema.arguments)}", node
            )
        wanted = {IF: 2, LOOP: 1, **dict.fromkeys((*WHOLE, *LATER), 1)}.get(op, 0)
        if len(node.blocks) != wanted:
            raise _Broken(f"{op.name} has {len(node.blocks)} blocks, should have {wanted}", node)

    def _kind(self, node: Node, argument: Argument, operand: Operand) -> None:
        if operand is None or argument.kind == "Object":
            if operand is None and not argument.is_optional and argument.kind != "Object":
                raise _Broken(f"{node.op.name}: argument {argument.name!r} must not be None", node)
            return
        if _is_container(operand) and type_of_immediate(operand).is_subtype_of(type_of_argument(argument)):
            return  # a list that the program makes
        if argument.is_list != (type(operand) is tuple):
            raise _Broken(
                (
                    f"{node.op.name}: argument {argument.name!r} must {'' if argument.is_list else 'not '}be a list, "
                    f"is {operand!r}"
                ),
                node,
            )
        for part in operand if argument.is_list else (operand,):
            if not _is_of_kind(part, argument, _welcomes_numbers(node)):
                raise _Broken(
                    f"{node.op.name}: argument {argument.name!r} must be {argument.type_text}, is {part!r}", node
                )

    # ---- types
    def _types(self, node: Node) -> None:
        if node.op is IF:
            return self._if(node)
        if node.op is LOOP:
            return self._loop(node)
        if node.op in GROUPS:
            return self._group(node)
        if node.op is GRADIENTS_OF:
            return self._gradients(node)
        if node.op in LATER:
            return None  # whoever calls the block says what comes of it
        inferred = self._inferred(node)
        if len(inferred) != len(node.outputs):
            raise _Broken(f"{node.op.name} has {len(node.outputs)} results, its type rule gives {len(inferred)}", node)
        for value, type in zip(node.outputs, inferred, strict=True):
            if not self.agree(value.type, type):
                raise _Broken(f"{node.op.name} results in {value.type}, its type rule gives {type}", node)

    def _inferred(self, node: Node) -> tuple[Type, ...]:
        if plan_of_opaque(node.op) is not None:
            return tuple(TENSOR for _ in node.outputs)
        declared = declared_types(node.op, len(node.outputs))
        if not node.op.host and declared == tuple(v.type for v in node.outputs):
            return declared  # it says no more than the schema does
        if not node.op.host and (_has_no_rule(node) or _reads_vague_values(node)):
            return _at_most(declared, node)
        try:
            inferred = self.builder.infer(node.op, node.args)
        except WeftError as error:
            raise _Broken(f"{node.op.name} refuses its arguments: {error}", node) from None
        if not any(a.kind == "Object" for a in node.op.schema.arguments) or len(inferred) != len(node.outputs):
            return inferred
        return tuple([_with_sizes_of(f, v.type) for f, v in zip(inferred, node.outputs, strict=True)])

    def agree(self, declared: Type, actual: Type) -> bool:
        """Whether a value that is `actual` may be declared so: equal, or declared with less knowledge."""
        if actual is declared or actual.is_subtype_of(declared):
            return True
        if not isinstance(declared, TensorType) or not isinstance(actual, TensorType):
            return False
        if declared.dtype is not None and declared.dtype is not actual.dtype:
            return False
        if declared.dims is None or actual.dims is None:
            return declared.dims is None
        return (
            len(declared.dims) == len(actual.dims)
            and all(self._same(a, b) for a, b in zip(declared.dims, actual.dims, strict=True))
        )

    def _same(self, declared: Dim | None, actual: Dim | None) -> bool:
        if declared is None:
            return True
        if actual is None or any(s.startswith("u") for s in symbols(declared) | symbols(actual)):
            return True  # a size that only the run tells
        try:
            return self.env.equal(declared, actual)
        except CaptureError:  # no example, no guard: nothing says that they are equal
            return False

    # ---- blocks
    def _pair(self, node: Node, what: str, declared: Type, operand: Operand) -> None:
        actual = type_of_immediate(operand)
        if not self.agree(declared, actual):
            raise _Broken(f"{node.op.name}: {what} is {actual}, should be {declared}", node)

    def _if(self, node: Node) -> None:
        _check_truth(node, node.args[0])
        if len(node.blocks) != 2:
            raise _Broken(f"prim::If has {len(node.blocks)} blocks, should have 2", node)
        for which, block in zip(("first", "second"), node.blocks, strict=False):
            if block.params or len(block.results) != len(node.outputs):
                raise _Broken(
                    (
                        f"prim::If with {len(node.outputs)} results: its {which} block has {len(block.params)} "
                        f"parameters and yields {len(block.results)} values, should have 0 and {len(node.outputs)}"
                    ),
                    node,
                )
            for i, (value, result) in enumerate(zip(node.outputs, block.results, strict=True)):
                self._pair(node, f"value {i} that the {which} block yields", value.type, result)

    def _group(self, node: Node) -> None:
        (block,) = node.blocks
        if block.params or len(block.results) != len(node.outputs):
            raise _Broken(f"{node.op.name}: its block has parameters, or yields another number of values", node)
        for i, (value, result) in enumerate(zip(node.outputs, block.results, strict=True)):
            self._pair(node, f"value {i} that its block yields", value.type, result)

    def _gradients(self, node: Node) -> None:
        grads, inputs, needs = node.args
        (block,) = node.blocks
        if not (len(block.params) == len(inputs) == len(needs)) or len(block.results) != len(grads):
            raise _Broken(f"{node.op.name}: its block takes other inputs, or yields another number of values", node)
        if len(node.outputs) != sum(map(bool, needs)):
            raise _Broken(f"{node.op.name}: there is one result for each input that is wanted", node)
        for i, (param, operand) in enumerate(zip(block.params, inputs, strict=True)):
            self._pair(node, f"input {i}", param.type, operand)

    def _loop(self, node: Node) -> None:
        trip, condition, carried, xs, _ = node.args
        if len(node.blocks) != 1:
            raise _Broken(f"prim::Loop has {len(node.blocks)} blocks, should have 1", node)
        (block,) = node.blocks
        stacked = len(node.outputs) - len(carried)
        if (
            stacked < 0 or len(block.params) != 1 + len(carried) + len(xs)
            or len(block.results) != 1 + len(node.outputs)
        ):
            raise _Broken(
                (
                    f"prim::Loop with {len(carried)} carried values, {len(xs)} xs and {len(node.outputs)} results: "
                    f"its block has {len(block.params)} parameters and yields {len(block.results)} values"
                ),
                node,
            )
        _check_truth(node, condition)
        if type_of_immediate(trip) not in (INT, tensor_type_of_count(trip)):
            raise _Broken(f"prim::Loop: trip is {type_of_immediate(trip)}, should be int", node)
        for i, operand in enumerate(carried):
            declared = block.params[1 + i].type
            self._pair(node, f"carried value {i}", declared, operand)
            self._pair(node, f"carried value {i} that the block yields", declared, block.results[1 + i])
            self._pair(node, f"carried value {i} within the block", node.outputs[i].type, block.params[1 + i])
        for i, operand in enumerate(xs):
            self._pair(node, f"a slice of xs {i}", block.params[1 + len(carried) + i].type, _Slice.of(node, operand))
        _check_truth(node, block.results[0])
        for i in range(stacked):
            value, row = node.outputs[len(carried) + i], block.results[1 + len(carried) + i]
            declared = _Slice.of(node, value).type
            self._pair(node, f"row of stacked result {i}", declared, row)

    # ---- the border
    def _writes(self) -> None:
        graph = self.graph
        written: set[int] = set()
        for position, param in graph.writes:
            if not 0 <= position < len(graph.results) or not 0 <= param < len(graph.params):
                raise _Broken(
                    f"write {position} -> {param}: there are {len(graph.results)} results and "
                    f"{len(graph.params)} parameters"
                )
            if param in written:
                raise _Broken(f"parameter {param} is written twice")
            written.add(param)
            target, source = graph.params[param].type, type_of_immediate(graph.results[position])
            if not self.agree(target, source):
                raise _Broken(f"result {position} of type {source} is written to parameter {param} of type {target}")


class _Slice(Value):
    """What one step of a loop sees of a tensor: the first dim taken off."""

    __slots__ = ()

    @classmethod
    def of(cls, node: Node, operand: Operand) -> _Slice:
        kind = operand.type if isinstance(operand, Value) else None
        if not isinstance(kind, TensorType) or kind.dims == ():
            raise _Broken(f"prim::Loop goes over a tensor with at least one dim, not over {operand!r}", node)
        return cls(tensor_type(kind.dtype, None if kind.dims is None else kind.dims[1:], kind.device))


_NUMBERS = (bool, int, float, complex, Expr)
_PYTHON: dict[str, tuple[type, ...]] = {
    "Scalar": _NUMBERS, "int": (int, Expr), "float": (int, float, Expr), "bool": (bool,), "str": (str,),
    "ScalarType": (DType,), "Device": (str,), "Layout": (object,), "MemoryFormat": (object,), "Generator": (object,),
}


def tensor_type_of_count(trip: Operand) -> Type | None:
    """The type of a 0-dim integer tensor that counts a loop's steps, or None."""
    kind = trip.type if isinstance(trip, Value) else None
    is_count = (
        isinstance(kind, TensorType) and kind.dims == () and kind.dtype is not None and kind.dtype.category == dt.INT
    )
    return kind if is_count else None


def _check_truth(node: Node, operand: Operand) -> None:
    kind = type_of_immediate(operand)
    if kind is not BOOL and not (isinstance(kind, TensorType) and kind.dims == ()):
        raise _Broken(f"{node.op.name}: a condition is {kind}, should be bool or a 0-dim tensor", node)


def _with_sizes_of(inferred: Type, declared: Type) -> Type:
    """What a rule gives that does not see into its arguments (an index of slices): the graph may know more of sizes."""
    if not isinstance(inferred, TensorType) or not isinstance(declared, TensorType) or inferred.dims is not None:
        return inferred
    return declared if declared.dtype is inferred.dtype else inferred


def _at_most(declared: tuple[Type, ...], node: Node) -> tuple[Type, ...]:
    """The types of results of which an analysis knew more than a type rule can tell, if the schema allows them."""
    types = tuple(v.type for v in node.outputs)
    if len(types) == len(declared) and all(t.is_subtype_of(d) for t, d in zip(types, declared, strict=True)):
        return types
    return declared


def _has_no_rule(node: Node) -> bool:
    """Whether an operator is opened instead, or its results are one list here and several in its rule."""
    is_list = len(node.outputs) == 1 and isinstance(node.outputs[0].type, ListType)
    return is_list or (node.op.type is None and node.op.view is None)


def _reads_vague_values(node: Node) -> bool:
    """Whether a type rule cannot ask a value for its sizes, or for the number that it is (which the rule of pointwise
    operators does not)."""
    asks_numbers = not isinstance(node.op.type, Pointwise)
    return any([
        not v.type.is_complete if isinstance(v.type, TensorType) else asks_numbers and v.type is INT
        for v in node.inputs()
    ])


def _is_container(operand: Operand) -> bool:
    return isinstance(operand, Value) and not isinstance(operand.type, (TensorType, SimpleType))


def _welcomes_numbers(node: Node) -> bool:
    """Whether a number may stand for a tensor: where the entry says so, and beside another operand
    of a pointwise body."""
    return node.op.numbers or (node.op.how == "scalar" and len(node.op.tensor_positions) > 1)


def _is_of_kind(value: Any, argument: Argument, numbers: bool) -> bool:
    if type(value) is Value:
        if isinstance(value.type, TensorType):
            return argument.kind == "Tensor"
        if not isinstance(value.type, SimpleType) or value.type in (STR, DTYPE, DEVICE, NONE, GENERATOR, LAYOUT):
            return value.type.is_subtype_of(optional(KINDS[argument.kind]))
        return argument.kind in ("Scalar", "int", "float", "bool") or (argument.kind == "Tensor" and numbers)
    if value is None:
        return argument.element_optional
    if argument.kind == "Tensor":
        return numbers and isinstance(value, _NUMBERS)
    return isinstance(value, _PYTHON[argument.kind])
