"""The state of a lowering: a program's functions, and a block's steps. Nodes that stand alone go to the functions
that `lowers` has entered."""

from __future__ import annotations

from collections.abc import Callable

import weft.catalogue  # noqa: F401  # defines the operators that lowerings are entered for
from weft.codegen.emit import Module
from weft.codegen.lower.loops import emit_nest
from weft.codegen.lower.nest import kernel_call, lay_out, layout_key
from weft.codegen.lower.parts import groups_for_parts
from weft.codegen.lower.tables import tables_of
from weft.codegen.lower.templates import Template, structure_of
from weft.codegen.target import Target
from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.ir.structure import ROWS, TABLE
from weft.loops.build import build_nests
from weft.loops.copies import copy_nest, leaf_nest
from weft.loops.kernel import BlockStep, HostCall, KernelCall, LoweredGraph, Step
from weft.loops.nest import Nest
from weft.ops.geometry import Geometry, contiguous_strides
from weft.ops.op import Op
from weft.ops.packet import Packet
from weft.passes.alias import Aliases, ProvingEnv, changes_dtype, dims_of, dtype_of
from weft.passes.count_steps import uncounted
from weft.passes.group import Group, StandaloneKernel, is_leaf
from weft.passes.grouping import group_nodes
from weft.support.errors import UnknownSize
from weft.support.progress import progress
from weft.types import shape_env
from weft.types.dims import Dim, product
from weft.types.tensor_type import TensorType


class Lowering:
    """The state of one program's lowering: the module, the functions written so far, the environment for questions."""

    def __init__(self, graph: Graph, module: Module, target: Target, with_text: bool = False) -> None:
        self.graph, self.module, self.target, self.with_text = graph, module, target, with_text
        self.env = ProvingEnv(graph.env)
        self.uncounted = uncounted(graph)
        self.functions: dict[object, str] = {}
        self.templates: dict[object, Template] = {}

    def block(self, block: Block) -> LoweredGraph:
        """One block and those inside it."""
        with shape_env.using(self.env):
            return BlockLowering(self, block).run()

    def function(self, key: object, hint: str, emit: Callable[[str], None]) -> str:
        """The name of the function for a key, written by `emit` if there is none yet."""
        name = self.functions.get(key)
        if name is None:
            name = self.functions[key] = f"k{len(self.functions)}_{hint}"
            emit(name)
            self.module.finished(self.module.functions[name])
        return name

    def nest(self, nest: Nest) -> KernelCall:
        """The call of a nest."""
        layout = lay_out(nest, self.target)
        name = self.function(
            layout_key(layout), _hint(nest), lambda name: emit_nest(self.module, layout, self.target, name)
        )
        return kernel_call(layout, name, self.with_text)

    def group(self, group: Group, aliases: Aliases, stored: set[Value]) -> list[KernelCall]:
        """The calls of a group's nests."""
        structure = structure_of(group, aliases, stored)
        template = self.templates.get(structure.key)
        if template is not None:
            return template.calls_of(structure)
        calls = [self.nest(n) for n in build_nests(group, aliases, stored)]
        self.templates[structure.key] = Template(structure, calls)
        return calls


class BlockLowering:
    """One block on its way to steps: what is grouped becomes nests, and every other node is lowered by itself."""

    def __init__(self, lowering: Lowering, block: Block, around: Aliases | None = None) -> None:
        self.lowering, self.block, self.around = lowering, block, around
        self.steps: list[Step] = []

    def run(self) -> LoweredGraph:
        """Steps and aliases of the block."""
        plan = group_nodes(self.block.nodes, self.block.results, self.lowering.env, self.around)
        self.aliases = plan.aliases
        self.tables = tables_of(self.block)
        self.awaited = groups_for_parts(plan, self.block.results)
        waiting = set(map(id, self.awaited.values()))
        seen = progress()
        seen.stage("writing kernels", len(plan.items), "groups")
        for number, item in enumerate(plan.items):
            seen.done = number
            if isinstance(item, StandaloneKernel):
                self._standalone(item, plan.stored)
            elif id(item) not in waiting:
                self.steps += self.lowering.group(item, plan.aliases, plan.stored)
        results = tuple(self._result(r) for r in self.block.results)
        return LoweredGraph(
            self.lowering.graph, self.block.params, results, self.steps, plan.aliases.geometry, self.tables
        )

    def _standalone(self, item: StandaloneKernel, stored: set[Value]) -> None:
        node = item.node
        if node.op in (TABLE, ROWS) and (node.output if node.op is TABLE else node.args[0]) in self.tables:
            return
        group = next((self.awaited[v] for v in node.inputs() if v in self.awaited), None)
        if group is not None:
            calls = self._lowered(node)
            if calls and not any(v in self.awaited for v in node.inputs()):
                self.steps += calls
                return
            for v in node.inputs():
                self.awaited.pop(v, None)
            self.steps += self.lowering.group(group, self.aliases, stored)
        inputs = tuple(dict.fromkeys(v for v in node.inputs()))
        if node.blocks:
            blocks = tuple(BlockLowering(self.lowering, b, self._views_read_by(b)).run() for b in node.blocks)
            self.steps.append(BlockStep(node, inputs, node.outputs, blocks))
        elif node.outputs and (is_leaf(node) or node.outputs[0] in self.aliases.splats) and _is_native(node.outputs[0]):
            self.steps.append(self.lowering.nest(leaf_nest(node, self.aliases)))
        else:
            self.steps += self._lowered(node) or [HostCall(node, inputs, node.outputs)]

    def _views_read_by(self, block: Block) -> Aliases:
        """The views of this block's buffers that one inside it reads, where they lie."""
        views = Aliases()
        geometry = self.aliases.geometry
        views.geometry.update((v, geometry[v]) for v in block.free_values() if v in geometry)
        return views

    def _lowered(self, node: Node) -> list[KernelCall] | None:
        """The kernels of a node that stands alone, or None when only NumPy knows how, or with a number as it is alone
        that the program is given."""
        try:
            return self._native(node)
        except UnknownSize:
            return None

    def _native(self, node: Node) -> list[KernelCall] | None:
        if not node.outputs or not all(_is_native(v) for v in (*node.outputs, *node.inputs())):
            return None
        if node in self.lowering.uncounted:
            return None
        if node.op.is_view:
            assert node.op.view is not None
            if len(node.outputs) != 1 or sum(1 for _ in node.inputs()) != 1 or changes_dtype(node):
                return None
            if not node.op.view.keeps_order:
                return None
            source: Value = node.args[0]
            return [self.copy(node.outputs[0], dims_of(source), *self.aliases.of(source), node)]
        lower = LOWERINGS.get(node.op)
        if lower is not None:
            return lower(self, node)
        if node.op.how == "kernel":
            for attempt in GENERAL:
                calls = attempt(self, node)
                if calls:
                    return calls
        return None

    def copy(self, target: Value, dims: tuple[Dim, ...], root: Value, geometry: Geometry, node: Node) -> KernelCall:
        """target, contiguous over `dims`, gets a view of `root`."""
        return self.lowering.nest(copy_nest(target, dims, root, geometry, node, self.aliases))

    def _result(self, result: Operand) -> Operand:
        """A result as the program hands it out: a root, or all of one in another shape; else a copy."""
        if type(result) is tuple:
            return tuple(self._result(r) for r in result)
        if type(result) is not Value or not isinstance(result.type, TensorType):
            return result
        place = self.aliases.geometry.get(result)
        if place is None or _is_whole(*place, dims_of(result)):
            return result
        copied = Value(result.type, result.name)
        assert result.node is not None
        self.steps.append(self.copy(copied, dims_of(result), *place, result.node))
        return copied


def _is_native(value: Value) -> bool:
    return dtype_of(value) is not None


def _is_whole(root: Value, geometry: Geometry, dims: tuple[Dim, ...]) -> bool:
    """Whether a view shows every element of its root in row-major order (a first row lies contiguous too,
    but its root is larger)."""
    wanted = contiguous_strides(dims)
    in_order = (
        geometry.offset == 0 and all(s == w or d == 1 for s, w, d in zip(geometry.strides, wanted, dims, strict=False))
    )
    return in_order and product(dims) == product(dims_of(root))


def _hint(nest: Nest) -> str:
    """A readable part of a function's name: the last operators."""
    names = [n.op.base for n in nest.nodes]
    return "_".join(names[-3:])[:40].strip("_") or "nest"


Lowerer = Callable[[BlockLowering, Node], "list[KernelCall] | None"]
LOWERINGS: dict[Op, Lowerer] = {}
GENERAL: list[Lowerer] = []  # tried in turn for kernels that the table lacks


def lowers(*operators: Packet) -> Callable[[Lowerer], Lowerer]:
    """Enter a lowering for operators that are kernels of their own."""

    def enter(lowerer: Lowerer) -> Lowerer:
        LOWERINGS.update((op, lowerer) for packet in operators for op in packet.overloads)
        return lowerer

    return enter
