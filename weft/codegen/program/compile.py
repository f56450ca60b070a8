"""From a graph to a Program: lowered, planned, emitted, compiled and loaded, or taken whole from the disk cache."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.codegen.compilation import Compilation
from weft.codegen.emit import Module
from weft.codegen.kernel_store import store
from weft.codegen.native import native_caller, products_in, services, shared_pool
from weft.codegen.program.host_calls import host_function
from weft.codegen.program.launch import SERVICES
from weft.codegen.program.layout import native_layout
from weft.codegen.program_key import program_key
from weft.codegen.target import Target, host_target
from weft.ir.graph import Graph
from weft.loops.kernel import LoweredGraph
from weft.plan.numpy_layout import numpy_layout
from weft.runtime.cache import Cache, user_cache
from weft.runtime.engine import Library, load
from weft.runtime.layout_text import decode, encode
from weft.runtime.native_call import NativeCaller
from weft.runtime.pool import Pool
from weft.runtime.program import HostFunction, Program
from weft.runtime.segments import Layout
from weft.support.errors import ParseError, StateError, ValueProblem
from weft.support.locations import Location
from weft.support.progress import progress

if TYPE_CHECKING:
    from weft.codegen.program_parts import ProgramParts


@dataclass(frozen=True, eq=False)
class Code:
    """The native code of a graph, loaded. Programs of graphs that are the same but for names and source
    lines may share it.

    calls: the native functions by name; pool: as Program takes it; owner: keeps the code mapped and the pool running.
    """

    layout: Layout
    calls: Mapping[str, Callable[[int], int]]
    pool: tuple[int, int]
    owner: object

    def program(self, graph: GraphSource) -> Program:
        """A program that runs this code, with memory of its own;
        its host segments and source lines are those of `graph`."""
        source = _Source(graph)
        return Program(
            self.layout, self.calls, source.host_function, self.pool, self.owner, source.where, source.parts
        )


GraphSource = Graph | Callable[[], Graph]
Lower = Callable[[Graph, Module, Target], LoweredGraph]
_LENGTH = struct.Struct("<Q")


def compile_program(
    graph: GraphSource,
    *,
    backend: str = "llvm",
    target: Target | None = None,
    cache: Cache | None = None,
    cache_key: str | None = None,
    lower: Lower | None = None,
) -> Program:
    """The program of a graph.

    graph: the graph, or a function that gives it. Such a function is called only if it must be:
    not when a program without host segments
        is found in the cache.
    backend: "llvm", or "numpy" for one NumPy call for each node.
    target: the machine to compile for; default the one of WEFT_CPU.
    cache, cache_key: where compiled programs are cached (default the user's cache), and the text that names this one.
    Without a key nothing
        is cached. Two graphs may share a key only if they are the same but for names and source lines.
    lower: graph to kernels, default `lower_graph`.
    """
    if backend == "numpy":
        source = _Source(graph)
        return Program(numpy_layout(source.graph), {}, source.host_function, where=source.where)
    if backend != "llvm":
        raise ValueProblem(f"compile_program: no backend {backend!r}; there are llvm and numpy")
    source = _Source(graph)  # made once: the program asks for the graph again
    code = compile_code(lambda: source.graph, target=target, cache=cache, cache_key=cache_key, lower=lower)
    return code.program(lambda: source.graph)


def compile_code(
    graph: GraphSource, *, target: Target | None = None, cache: Cache | None = None, cache_key: str | None = None,
    lower: Lower | None = None, accept: Callable[[Layout], None] | None = None,
) -> Code:
    """The native code of a graph; arguments as in compile_program. accept: is shown the layout before machine code is
    made, and may raise."""
    source = _Source(graph)
    target = target or host_target()
    cache = cache or user_cache()
    key = None if cache_key is None else program_key(cache_key, target)
    cached = None if key is None else _cached(cache, key, target)
    if cached is not None:
        return cached
    layout, code = _compiled(source.graph, target, lower or _lower_graph(), accept)
    if key is not None:
        _keep(cache, key, layout, code)
    return _loaded(layout, code, target)


def _compiled(
    graph: Graph, target: Target, lower: Lower, accept: Callable[[Layout], None] | None
) -> tuple[Layout, tuple[bytes, ...]]:
    module = Module.for_target(target)
    with Compilation(module, target, store=store) as compilation:
        lowered = lower(graph, module, target)
        progress().stage("planning memory", len(lowered.steps), "steps")
        layout = native_layout(lowered, module)
        if accept is not None:
            accept(layout)
        return layout, compilation.objects(lambda: _shared(layout, target))


def _lower_graph() -> Lower:
    from weft.codegen.lower.graph import lower_graph  # deferred: a program from the cache needs no lowering

    return lower_graph


def _loaded(layout: Layout, objects: Sequence[bytes], target: Target) -> Code:
    shared, caller, pool = _shared(layout, target)
    imports = {**products_in(objects, target), **{name: shared[name] for name in SERVICES}}
    library = load(objects, layout.entries, imports)
    calls = {name: caller.callable(library[name], library) for name in layout.entries}
    addresses = (0, 0) if pool is None else (pool.address, pool.parallel)
    return Code(layout, calls, addresses, (library, pool))


def _shared(layout: Layout, target: Target) -> tuple[Library, NativeCaller, Pool | None]:
    """What a program shares with all others of this process."""
    return services(target), native_caller(), shared_pool() if layout.parallel else None


# ---- the disk cache
def code_bytes(graph: GraphSource, cache_key: str, cache: Cache | None = None) -> bytes | None:
    """The code of a graph as the cache keeps it for this machine: found there, or compiled once more. None for a
    program that is not kept."""
    cache, target = cache or user_cache(), host_target()
    key = program_key(cache_key, target)
    kept = cache.get(key)
    return _joined(*_compiled(_Source(graph).graph, target, _lower_graph(), None)) if kept is None else kept


def carry_code(cache_key: str, data: bytes, cache: Cache | None = None) -> None:
    """Have code that `code_bytes` gave, perhaps in another process, for when a graph of this key is compiled."""
    (cache or user_cache()).carried.carry(program_key(cache_key, host_target()), data)


def _keep(cache: Cache, key: str, layout: Layout, objects: Sequence[bytes]) -> None:
    data = _joined(layout, objects)
    if data is not None:
        cache.put(key, data)


def _joined(layout: Layout, objects: Sequence[bytes]) -> bytes | None:
    try:
        text = encode(layout).encode()
    except TypeError:  # a result that is an object of Python's: this program is compiled anew each time
        return None
    return b"".join(_LENGTH.pack(len(part)) + part for part in (text, *objects))


def _cached(cache: Cache, key: str, target: Target) -> Code | None:
    """The code of a cache entry, or None if there is none that this version reads."""
    data = cache.get(key)
    try:
        text, *objects = _parts(data or b"")
        return _loaded(decode(text.decode()), objects, target)
    # ValueError: no text; StateError: what follows the layout is no object code
    except (ValueError, ParseError, UnicodeDecodeError, StateError):
        return None


def _parts(data: bytes) -> Iterator[bytes]:
    """What `_joined` has joined."""
    at = 0
    while at + _LENGTH.size <= len(data):
        begin = at + _LENGTH.size
        at = begin + _LENGTH.unpack_from(data, at)[0]
        yield data[begin:at]


class _Source:
    """The graph behind a program, fetched when first needed."""

    def __init__(self, graph: GraphSource) -> None:
        self._given = graph
        self._graph = graph if isinstance(graph, Graph) else None

    @property
    def graph(self) -> Graph:
        if self._graph is None:
            assert not isinstance(self._given, Graph)
            self._graph = self._given()
        return self._graph

    def host_function(self, index: int) -> HostFunction:
        """The Python function of a top-level node."""
        return host_function(self.graph.nodes[index])

    def where(self, index: int) -> Location | None:
        """The user's line of a node, counted among all nodes."""
        return list(self.graph.walk())[index].where if index >= 0 else None

    def parts(self) -> ProgramParts:
        """What a program of the graph is made of."""
        from weft.codegen.program_parts import program_parts  # deferred: lowers the graph once more

        return program_parts(self.graph)


