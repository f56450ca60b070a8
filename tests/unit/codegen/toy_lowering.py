"""A lowering for tests of the program builder: one scalar loop for each node on f32 tensors of equal dims;
reshapes are aliases; the rest are host calls.

Products by a number read it from the numbers table. `checked` makes a node's kernel fail on a negative element
of its first input.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.codegen.emit import F32, F64, I64, PTR, Function, Module, Value, const
from weft.codegen.target import Target
from weft.ir.graph import Graph, Node
from weft.ir.graph import Value as GraphValue
from weft.loops.kernel import HostCall, KernelCall, LoweredGraph
from weft.ops.geometry import contiguous
from weft.ops.op import Op
from weft.ops.rules import Pointwise
from weft.ops.schema import parse_schema
from weft.types import dtype as dt
from weft.types.shape_env import ShapeEnv, current_env
from weft.types.tensor_type import TensorType, tensor_type

KERNEL = [(PTR, "buffers"), (PTR, "ints"), (PTR, "numbers"), (PTR, "scratch"), (I64, "begin"), (I64, "end")]
BODIES = {"aten::add.Tensor": "fadd", "aten::mul.Tensor": "fmul", "test::checked": "fadd", "aten::neg": "fneg"}

_CHECKED = parse_schema("test::checked(Tensor self, Tensor other) -> Tensor")
CHECKED = Op(  # not defined: the catalogue's tests must not see it
    _CHECKED, "self + other; fails natively where self is negative.", type=Pointwise(_CHECKED),
    scalar=lambda s, a, b: s.add(a, b), vjp={}, effect="raises",
)
RESHAPE = Op(
    parse_schema("test::reshape_alias(Tensor self, int[] size) -> Tensor"), "self with other dims.",
    type=lambda x, size: tensor_type(x.dtype, size), kernel=lambda x, size: x.reshape(size), vjp={},
)
POSITIVE_ROWS = Op(
    parse_schema("test::positive_rows(Tensor self) -> Tensor"),
    "The rows whose first element is positive: a size bound at run time.",
    type=lambda x: tensor_type(x.dtype, ((current_env() or ShapeEnv()).fresh("u"), *x.shape[1:])),
    kernel=lambda x: x[x[:, 0] > 0], vjp={},
)


class ToyLowering:
    """Call it as lower_graph. cost: of each kernel (None: one for each element);
    scratch: bytes that a kernel asks for (and fills)."""

    def __init__(
        self, cost: object = None, scratch: int = 0, in_place: bool = True, host_calls: tuple[str, ...] = ()
    ) -> None:
        self.cost, self.scratch, self.in_place, self.host_calls = cost, scratch, in_place, host_calls
        self.calls = 0

    def __call__(self, graph: Graph, module: Module, target: Target) -> LoweredGraph:
        self.calls += 1
        lowered = LoweredGraph(graph, graph.params, graph.results)
        for node in graph.nodes:
            if not isinstance(node.outputs[0].type, TensorType):
                continue
            if node.op.base == "reshape_alias":
                root = lowered.root(node.args[0])
                lowered.alias[node.output] = (root, contiguous(node.output.tensor_type.shape))
            elif node.op.name in BODIES and node.op.name not in self.host_calls and _is_simple(node):
                lowered.steps.append(self._kernel(node, module, lowered))
            else:
                inputs = tuple(dict.fromkeys(node.inputs()))
                lowered.steps.append(HostCall(node, inputs, node.outputs))
        return lowered

    def _kernel(self, node: Node, module: Module, lowered: LoweredGraph) -> KernelCall:
        tensors = [
            lowered.root(a) for a in node.args[:2] if isinstance(a, GraphValue) and isinstance(a.type, TensorType)
        ]
        tensors = list(dict.fromkeys(tensors))
        places = [tensors.index(lowered.root(a)) if a in lowered.alias or a in tensors else None for a in node.args[:2]]
        numbers = tuple(a for a, p in zip(node.args[:2], places, strict=False) if p is None)
        numel = node.output.tensor_type.numel
        kind = "checked" if node.op is CHECKED else ""
        name = f"toy_{BODIES[node.op.name]}_{'_'.join(map(str, places))}_{kind}{self.scratch}".lower()
        if name not in module.functions:
            _emit(module, name, BODIES[node.op.name], places, len(tensors), node.op is CHECKED, self.scratch)
        in_place = tuple((0, i) for i in range(len(tensors))) if self.in_place else ()
        return KernelCall(
            name, (*tensors, node.output), 1, (numel,), numbers, numel, numel if self.cost is None else self.cost,
            self.scratch, in_place,
            (node,), (0,) if node.op is CHECKED else ())


def _is_simple(node: Node) -> bool:
    types = [a.type for a in node.args[:2] if isinstance(a, GraphValue) and isinstance(a.type, TensorType)]
    dims = node.output.tensor_type.dims
    return node.output.tensor_type.dtype is dt.float32 and all(t.dtype is dt.float32 and t.dims == dims for t in types)


@contextmanager
def _elements(f: Function, begin: Value, end: Value) -> Iterator[Value]:
    with f.loop(begin, end, name="element") as loop:
        yield loop.index


def _emit(
    module: Module, name: str, body: str, places: list[int | None], inputs: int, checked: bool, scratch: int
) -> None:
    f = module.function(name, I64, KERNEL)
    buffers, _, numbers, space, begin, end = f.params
    addresses = [f.load(PTR, f.gep(PTR, buffers, i), align=8) for i in range(inputs + 1)]
    number = None
    if None in places:
        number = f.fptrunc(f.load(F64, numbers), F32)
    if scratch:
        f.memset(space, 0x55, const(I64, scratch))
    with _elements(f, begin, end) as i:
        operands = [number if p is None else f.load(F32, f.gep(F32, addresses[p], i)) for p in places]
        if checked:
            with f.if_(f.fcmp("olt", operands[0], 0.0), "negative"):
                f.ret(const(I64, 1))
        result = f.fneg(operands[0]) if body == "fneg" else getattr(f, body)(*operands)
        f.store(result, f.gep(F32, addresses[-1], i))
    f.ret(const(I64, 0))
