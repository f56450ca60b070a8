"""What a program is made of, for who looks at it: its kernels by their numbers, with operators, the user's lines,
bytes and operations; and what runs outside of native code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from weft.codegen.compiler import compile_assembly
from weft.codegen.emit import Module
from weft.codegen.lower.graph import lower_graph
from weft.codegen.target import Target, host_target
from weft.ir.graph import Graph, Node, Value
from weft.loops.kernel import KernelCall, LoweredGraph
from weft.plan.frame import Frame
from weft.plan.numpy_layout import graph_symbols
from weft.plan.storage import value_bytes
from weft.support.locations import Location
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType


@dataclass(frozen=True, eq=False)
class KernelFacts:
    """One kernel of a program.

    name        of the function; equal kernels share one
    operators   that it computes, in order, each once
    lines       of the user's, in order, each once
    params      numbers of the program's parameters that it reads or writes
    bytes       of the buffers that it reads and writes, each once; operations: of scalars, as the compiler counts them
                for the choice between one thread and many. Numbers, or expressions over the program's symbols
    nest        its loops as text
    """

    name: str
    operators: tuple[str, ...]
    lines: tuple[Location, ...]
    params: tuple[int, ...]
    bytes: Dim
    operations: Dim
    nest: str


@dataclass(frozen=True, eq=False)
class BufferFacts:
    """A buffer between kernels: its bytes, the operator that makes it, the user's lines, and the first and the last of
    the program's kernels (by their numbers) while which it is held."""

    bytes: Dim
    operator: str
    lines: tuple[Location, ...]
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class ProgramParts:
    """A program.

    symbols     as its layout has them, by the graph's own names
    kernels     by their numbers, as native code notes them (runtime/trace.py)
    host        (operator, the user's lines) of each node of the graph, for those that Python runs
    buffers     what it keeps between kernels, and how long: in an arena where sizes are known when it begins
    """

    name: str
    symbols: tuple[str, ...]
    kernels: tuple[KernelFacts, ...]
    host: tuple[tuple[str, tuple[Location, ...]], ...]
    buffers: tuple[BufferFacts, ...] = ()


def program_parts(graph: Graph, target: Target | None = None) -> ProgramParts:
    """The parts of an optimized graph. It is lowered once more, without machine code: the same graph gives the same
    kernels in the same order."""
    target = target or host_target()
    lowered = lower_graph(graph, Module.for_target(target), target, with_text=True)
    numbers = {value: i for i, value in enumerate(graph.params)}
    for position, param in graph.writes:  # what is computed is put there
        result = lowered.results[position]
        if isinstance(result, Value):
            numbers.setdefault(result, param)
    frame = Frame(lowered)
    kernels = tuple([_kernel(call, lowered, numbers) for call in frame.kernels])
    host = tuple([(node.op.name, _lines((node,))) for node in graph.nodes])
    return ProgramParts(graph.name, graph_symbols(graph)[0], kernels, host, tuple(_buffers(frame)))


def assembly_of(graph: Graph, names: Iterable[str], target: Target | None = None) -> dict[str, str]:
    """The machine code of some kernels of an optimized graph, by the kernels' names, as the assembler writes it without
    its directives. Raises CodegenError.
    """
    target = target or host_target()
    module = Module.for_target(target)
    lower_graph(graph, module, target)
    wanted = [name for name in names if name in module.functions]
    module.keep(wanted)
    text = compile_assembly(module.text(), target) if wanted else ""
    bodies = {m[1]: m[2] for m in _FUNCTION.finditer(text)}
    return {name: _DIRECTIVES.sub("", bodies[name]).strip("\n") for name in wanted if name in bodies}


_FUNCTION = re.compile(r'^"?([\w.$]+)"?:[^\n]*\n(.*?)^\.Lfunc_end\d+:', re.MULTILINE | re.DOTALL)
_DIRECTIVES = re.compile(r"^\s*\.(?!L)[^\n]*\n|^\s*#[^\n]*\n", re.MULTILINE)


def _buffers(frame: Frame) -> Iterator[BufferFacts]:
    """What is held between kernels: of all values the memory that a kernel makes, results left out."""
    lives, results = frame.storage.lives, {id(v) for v in frame.lowered.results}
    count, number = [], 0  # how many kernels lie before each event
    for event in (*frame.events, None):
        count.append(number)
        number += isinstance(event, KernelCall)
    for value, first in lives.producer.items():
        last = lives.last.get(value, first)
        if value in lives.same or id(value) in results or not isinstance(value.type, TensorType):
            continue
        event = frame.events[first] if 0 <= first < len(frame.events) else None
        if isinstance(event, KernelCall) and value.type.is_complete and last < lives.end:
            node = next((n for n in event.nodes if value in n.outputs), event.nodes[0])
            yield BufferFacts(value_bytes(value), node.op.name, _lines((node,)), count[first], count[last])


def _kernel(call: KernelCall, lowered: LoweredGraph, numbers: dict[Value, int]) -> KernelFacts:
    size: Dim = 0
    for value in dict.fromkeys(call.buffers):
        if isinstance(value.type, TensorType) and value.type.is_complete:
            size = size + value_bytes(value)
    params = [numbers[v] for v in dict.fromkeys(map(lowered.root, call.buffers)) if v in numbers]
    operators = tuple(dict.fromkeys(n.op.name for n in call.nodes))
    return KernelFacts(
        call.function, operators, _lines(call.nodes), tuple(params), size, call.cost, call.text
    )


def _lines(nodes: tuple[Node, ...]) -> tuple[Location, ...]:
    return tuple(dict.fromkeys(n.where for n in nodes if isinstance(n.where, Location)))
