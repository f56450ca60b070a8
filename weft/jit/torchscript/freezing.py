"""freeze: a scripted Module with everything that it holds as constants of its program."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from weft.ir import graph as core
from weft.ir.builder import Builder
from weft.ir.graph import Node, Operand, Value
from weft.jit.module import ScriptMethod, ScriptModule, unique_name
from weft.jit.program import Program
from weft.jit.script.marks import prepared
from weft.jit.torchscript.files.modules import LoadedModule, loaded_module
from weft.jit.torchscript.inlining import inlined
from weft.nn.modules.module import Module
from weft.passes.dce import dce
from weft.passes.rebuild import rebuild
from weft.passes.scripted.constants import propagate_constants
from weft.passes.scripted.entries import DICT, GET_ATTR, LIST, SET_ATTR, TUPLE
from weft.passes.scripted.lists import lower_lists
from weft.passes.scripted.memory import Memory
from weft.passes.scripted.peephole import peephole
from weft.passes.scripted.tuples import lower_tuples
from weft.support.errors import ArgumentError, StateError
from weft.support.reachable import reachable
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import ClassType, DictType, ListType, TupleType, Type, class_of

_PLAIN = (bool, int, float, complex, str, type(None))


def freeze(module: Any, preserved_attrs: Sequence[str] | None = None, optimize_numerics: bool = True) -> ScriptModule:
    """A Module whose `forward` has parameters, buffers and attributes as they are now as constants; it has none itself.
    What they decide (`training`, flags) is decided.

    preserved_attrs: methods that are frozen too, and attributes that are kept as they are now. optimize_numerics: for
    PyTorch's callers; the passes of weft keep every number as it is. Raises StateError for a Module in training mode,
    and for a program that writes what would be frozen, with the attribute's name and the line; ArgumentError for what
    is no ScriptModule.
    """
    module = prepared(module)
    if not isinstance(module, ScriptModule):
        raise ArgumentError(f"freeze takes a scripted Module, not {type(module).__name__}; call weft.jit.script first")
    if module.training:
        raise StateError("freeze works on Modules in eval mode; call .eval() first")
    frozen = loaded_module(unique_name(module.original_name), module.original_name)
    frozen.training = False
    kept = tuple(preserved_attrs or ())
    for name in kept if kept and "forward" not in module._programs else ("forward", *kept):
        method = getattr(module, name, None)
        if isinstance(method, ScriptMethod):
            _add(frozen, name, _Freezing(module, method.__weft_program__).program(class_of(frozen._script_name), name))
        elif method is None or name == "forward":
            raise ArgumentError(f"freeze: {module.original_name} has no method or attribute {name!r}")
        else:
            frozen.__dict__[name] = copy.deepcopy(method)
    return frozen


def optimize_for_inference(mod: Any, other_methods: Sequence[str] | None = None) -> ScriptModule:
    """The Module frozen, if it is not yet: that is all that there is to do, its groups are compiled when they run.

    other_methods: methods besides `forward` that are frozen too.
    """
    held = isinstance(mod, LoadedModule) and not (mod._parameters or mod._buffers or mod._modules)
    return mod if held else freeze(mod.eval(), other_methods)


def run_frozen_optimizations(
    mod: Any, optimize_numerics: bool = True, preserved_methods: Sequence[str] | None = None
) -> None:
    """For PyTorch's callers: what `freeze` makes has been through every pass. Raises ArgumentError for what is no
    ScriptModule.
    """
    if not isinstance(mod, ScriptModule):
        raise ArgumentError(f"run_frozen_optimizations takes a frozen Module, not {type(mod).__name__}")


def _add(frozen: LoadedModule, name: str, program: Program) -> None:
    frozen._add(name, program)


class _Freezing:
    """One method: what is known of the objects in its graph."""

    def __init__(self, module: ScriptModule, program: Program) -> None:
        graph, self.whole = inlined(program)
        self.graph = graph
        self.module = module
        self.objects: dict[Value, Any] = {}
        self.paths: dict[Value, str] = {}
        self.constants: dict[str, Any] = {}

    def program(self, kind: Type, name: str) -> Program:
        """The method of the frozen Module."""
        self._look(self.graph)
        flagged = rebuild(self.graph, self._flag, keep_order=True)
        self._look(dce(propagate_constants(flagged)))  # `if self.training:` is decided now
        self._refuse_mutation()
        graph = rebuild(self.graph, self._constant, keep_order=True, same=self._same)
        before = None
        while before is not graph:
            before = graph
            for transform in (lower_tuples, lower_lists, propagate_constants, peephole, dce):
                graph = transform(graph)
        used = {n.args[1] for n in graph.walk() if n.op is GET_ATTR and n.args[0] is None}
        constants = {k: _copied(v) for k, v in self.constants.items() if k in used}
        captured = {k: v for k, v in self.whole.captured.items() if k in used} | constants
        owner = core.Value(kind, "self")
        params = (owner, *graph.params[1:])
        frozen = core.Graph(graph.name, core.Block(params, graph.nodes, graph.results), graph.env)
        first = dataclasses.replace(self.whole.parameters[0], type=kind)
        return dataclasses.replace(
            self.whole, name=f"{kind.name}.{name}" if isinstance(kind, ClassType) else name, graph=frozen,
            parameters=(first, *self.whole.parameters[1:]), captured=captured, code=None,
        )

    def _look(self, graph: core.Graph) -> None:
        """Go on with a graph, of whose values it is known which objects they are."""
        self.graph = graph
        self.objects, self.paths = {graph.params[0]: self.module}, {graph.params[0]: "self"}
        self._find_objects(graph.block)

    def _flag(self, builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        """What stands for a read of a number, text or None that the program does not write."""
        held = self.objects.get(node.outputs[0], self) if node.op is GET_ATTR else self
        return (held,) if isinstance(held, _PLAIN) else None

    def _find_objects(self, block: core.Block) -> None:
        for node in block.nodes:
            if node.op is GET_ATTR and node.args[0] in self.objects:
                held = getattr(self.objects[node.args[0]], node.args[1])
                self.paths[node.output] = f"{self.paths[node.args[0]]}.{node.args[1]}"
                self.objects[node.output] = held
            for inner in node.blocks:
                self._find_objects(inner)

    def _refuse_mutation(self) -> None:
        memory = Memory(self.graph)
        for node in self.graph.walk():
            if node.op is SET_ATTR and node.args[0] in self.objects:
                self._refuse(node, f"{self.paths[node.args[0]]}.{node.args[1]}")
            target = node.args[0] if node.args else None
            source = _source(target)
            is_write = memory.writes(node) and not node.blocks and node.op is not SET_ATTR and not _is_call(node)
            if is_write and isinstance(self.objects.get(source), (Tensor, list, dict)):
                self._refuse(node, self.paths[source])

    def _refuse(self, node: Node, path: str) -> None:
        line = "" if node.where is None else f" ({node.where.file}:{node.where.line})"
        raise StateError(f"freeze: the program writes {path}{line}, which would be a constant; take the write out")

    def _constant(self, builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
        """What stands for a read of an attribute."""
        if node.op is not GET_ATTR or node.output not in self.objects:
            return None
        held = self.objects[node.output]
        return (self._operand(builder, held, node.output.type, self.paths[node.output]),)

    def _same(self, old: Value, new: Value) -> None:
        if old in self.objects:
            self.objects[new], self.paths[new] = self.objects[old], self.paths[old]

    def _operand(self, builder: Builder, held: Any, kind: Type, path: str) -> Operand:
        if isinstance(held, _PLAIN):
            return held
        if type(held) is tuple and isinstance(kind, TupleType) and not kind.name:
            items = tuple(
                self._operand(builder, v, k, f"{path}.{i}")
                for i, (v, k) in enumerate(zip(held, kind.elements, strict=True))
            )
            return builder.emit_raw(TUPLE, (items, ""), (kind,)).output
        if isinstance(held, list) and isinstance(kind, ListType):
            items = tuple(self._operand(builder, v, kind.element, f"{path}.{i}") for i, v in enumerate(held))
            return builder.emit_raw(LIST, (items, str(kind)), (kind,)).output
        if isinstance(held, dict) and isinstance(kind, DictType):
            items = tuple(self._operand(builder, v, kind.value, f"{path}.{i}") for i, v in enumerate(held.values()))
            return builder.emit_raw(DICT, (tuple(held), items, str(kind)), (kind,)).output
        name = path.removeprefix("self.").replace(".", "_")
        if name not in self.constants:
            self.constants[name] = held
        return builder.emit_raw(GET_ATTR, (None, name, str(kind)), (kind,)).output


def _copied(held: Any) -> Any:
    """What an attribute has, apart from the Module that it was taken from, and without gradients of its own."""
    if isinstance(held, Tensor):
        return held.detach().clone()
    if not isinstance(held, ScriptModule):
        return held
    computed = [v for v in reachable([held], _parts) if isinstance(v, Tensor) and not v.is_leaf]
    values = {id(tensor): tensor.detach().clone() for tensor in computed}  # (what hooks keep: weight_norm, say)
    return copy.deepcopy(held, values).requires_grad_(False)


def _parts(held: Any) -> Iterable[Any]:
    """What an object holds that a deep copy of it copies too."""
    if isinstance(held, dict):
        return held.values()
    if isinstance(held, (list, tuple)):
        return held
    return getattr(held, "__dict__", {}).values() if isinstance(held, (ScriptModule, Module)) else ()


def _is_call(node: Node) -> bool:
    return node.op.effect == "python" or (not node.op.host and node.op.writes is None)


def _source(operand: Operand) -> Any:
    """The value whose memory an operand shows, through views."""
    while isinstance(operand, Value) and operand.node is not None and operand.node.op is not GET_ATTR:
        producer = operand.node
        if producer.op.view is None and producer.op.writes is None and not producer.op.observes:
            return None
        operand = producer.args[0] if producer.args else None
    return operand if isinstance(operand, Value) else None


