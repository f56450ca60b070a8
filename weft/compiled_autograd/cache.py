"""The cache of captured backwards, by structure; and what a backward call does with it."""

from __future__ import annotations

import sys
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.autograd.anomaly import anomaly
from weft.autograd.engine import Walk
from weft.autograd.node import Node, RemovableHandle
from weft.compiled_autograd.captured import CapturedGraph
from weft.compiled_autograd.forms import Key
from weft.compiled_autograd.part_code import Progress
from weft.compiled_autograd.program import Diverged, Program
from weft.compiled_autograd.program_runs import Saved
from weft.compiled_autograd.reasons import reason
from weft.compiled_autograd.recording import Pattern, Recording, record
from weft.compiled_autograd.structure import Structure, unpacked
from weft.compiled_autograd.watched import Watched
from weft.programs.store import UNFIT, Miss, ProgramStore
from weft.support import limits
from weft.support.counters import counters
from weft.support.errors import StateError
from weft.support.memo import Memo
from weft.tensor.modes import modes
from weft.types.unbacked import alive

Compiler = Callable[[CapturedGraph], Callable[..., Any]]
MOST_NODES = 1_000_000  # of all captured graphs: few long ones take as much memory as many short ones
NEVER = float("inf")


@dataclass(eq=False)
class Captured:
    """One captured graph, and what its compiler made of it."""

    key: Key
    recording: Recording
    graph: CapturedGraph
    compiled: dict[Any, Callable[..., Any]] = field(default_factory=dict)
    has_run: bool = False  # to its end

    def match(self, structure: Structure, patterns: Mapping[int, Pattern]) -> Miss | None:
        """Whether the graph is that of a structure with its key; a miss where it is not."""
        return None if self.recording.fits(structure, patterns) else UNFIT

    def run(self, compiler: Compiler, inputs: list[Any], progress: Progress, resumed: Diverged | None) -> Any:
        """Call what the compiler made of the graph."""
        program = self.compiled.get(compiler)
        if program is None:
            program = self.compiled[compiler] = compiler(self.graph)
        if isinstance(program, Program):
            return program(inputs, progress, resumed)
        if resumed is None:
            return program(inputs)
        return Program(self.graph.graph)(inputs, progress, resumed)


class Cache:
    """Captured graphs by structure; of one structure there are several where programs or calls of Python gave other
    gradients."""

    def __init__(self) -> None:
        self._store: ProgramStore[Key, Captured] = ProgramStore(limits.BACKWARDS, limits.GRAPHS_OF_A_BACKWARD)
        # what calls of Python gave the last time
        self._patterns: Memo[Key, dict[int, Pattern]] = Memo(limits.BACKWARDS)
        self._lock = threading.RLock()
        self.calls = 0  # backward calls that ran by a captured graph
        self.misses: deque[str] = deque(maxlen=limits.TEXTS_OF_MISSES)
        self.last: CapturedGraph | None = None

    def __len__(self) -> int:
        return len(self.graphs())

    def graphs(self) -> list[Captured]:
        """All captured graphs."""
        return [captured for graphs in self._store for captured in graphs]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._store.forget()
            self._patterns.clear()
            self.misses.clear()
            self.last = None

    def lookup(self, structure: Structure, patterns: Mapping[int, Pattern], is_verbose: bool = False) -> Captured:
        """The captured graph of a structure, where calls of Python give these results: one that is there, or a new
        one, printed with its reason if asked."""
        with self._lock:
            self.calls += 1
            match = self._store.find(structure.key, structure, patterns)
            captured = self._capture(structure, patterns, is_verbose) if match is None else match[0]
            self.last = captured.graph
            return captured

    def _capture(self, structure: Structure, patterns: Mapping[int, Pattern], is_verbose: bool) -> Captured:
        counters.captures += 1
        recording = record(structure, patterns)
        calls = _calls(recording, structure.nodes)
        others = [c.recording for c in self.graphs()]
        why = reason(recording, structure, calls, others)
        self.misses.append(why)
        captured = Captured(structure.key, recording, CapturedGraph(recording.graph, calls))
        if is_verbose:
            print(f"compiled autograd: {why}\n{captured.graph.explain()}", file=sys.stderr)
        if sum([len(r.graph.nodes) for r in (recording, *others)]) > MOST_NODES:
            self._store.forget()
        return self._store.variants(structure.key).add(captured)

    def drop(self, captured: Captured) -> None:
        """Take a graph back whose first run has shown that a call of Python gives something else than was guessed, so
        that the rest of it was never run: the one that goes by what it gives is the capture."""
        with self._lock:
            self._store.variants(captured.key).remove(lambda other: other is captured)
            self.misses.pop()
            counters.captures -= 1

    def expected(self, key: Key) -> Mapping[int, Pattern]:
        """What calls of Python gave the last time."""
        return self._patterns.get(key, {})

    def learn(self, key: Key, patterns: dict[int, Pattern]) -> None:
        """Remember what calls of Python gave."""
        self._patterns[key] = patterns


cache = Cache()


def _calls(recording: Recording, nodes: Sequence[Node]) -> list[str]:
    """Beside the graph's nodes: whose they are, as "MulBackward0 (NodeCall 2)"."""
    numbers = {place: i for i, place in enumerate(dict.fromkeys(recording.owners))}
    return [f"{nodes[place].name()} (NodeCall {numbers[place]})" for place in recording.owners]


class _Trap(threading.local):
    is_set = False


trap = _Trap()


class Placeholder:
    """Stands for a tensor, hook or node while a graph is captured under `trap_metadata`:
    whoever reads anything of it hears so."""

    def __getattribute__(self, name: str) -> Any:
        raise StateError(
            f"the capture of a backward reads {name!r} of a tensor; a captured graph knows structure alone"
        )

    def _refuse(self, *operands: Any) -> Any:
        raise StateError("the capture of a backward asks for a value; a captured graph knows structure alone")

    # what Python looks up on the class
    __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = __call__ = __eq__ = __lt__ = __hash__ = _refuse
    __index__ = __int__ = __float__ = __add__ = __radd__ = __mul__ = __rmul__ = __neg__ = __str__ = _refuse


def run(walk: Walk, compiler: Compiler, is_verbose: bool = False) -> tuple[Any, ...]:
    """One backward call: by the captured graph of its structure. While a capture records, the engine walks itself."""
    if modes.capture is not None:
        return walk.run()
    if alive[0]:
        for node in (*walk.dependencies, *(root for root, _ in walk.roots)):
            node.find_sizes()
    call = _Call(walk)
    try:
        key = call.structure.key
    except TypeError:  # a saved value that is no key
        counters.walked_backwards += 1
        return walk.run()
    counters.compiled_backwards += 1
    patterns = cache.expected(key)
    resumed: Diverged | None = None
    while True:
        captures = counters.captures
        captured = cache.lookup(call.structure, patterns, is_verbose)
        is_new = counters.captures != captures
        inputs = call.begin(captured.recording, resumed)
        try:
            if anomaly.enabled:
                outputs = Watched(captured.recording, call.structure.nodes)(inputs, call, resumed)
            else:
                outputs = captured.run(compiler, inputs, call, resumed)
        except Diverged as error:
            error.__traceback__ = error.__context__ = None  # nothing of the run is kept that the error does not name
            if error.pattern is not None:
                patterns = {**{n: p for n, p in patterns.items() if n < error.node}, error.node: error.pattern}
                cache.learn(key, patterns)
                if not captured.has_run and is_new:
                    cache.drop(captured)
            call.stop_after(error.node)
            if call.structure.key != key:  # other hooks are to come: numbers of later calls are those of others
                key = call.structure.key
                later = {n: p for n, p in cache.expected(key).items() if n > error.node}
                patterns = {**{n: p for n, p in patterns.items() if n <= error.node}, **later}
            resumed = error
            continue
        captured.has_run = True
        call.before(len(captured.recording.graph.nodes), ())
        return tuple(outputs)


class _Call:
    """What one backward call lets go of while it runs, and looks at again."""

    def __init__(self, walk: Walk) -> None:
        self.structure = Structure.of(walk)
        self.keep = walk.keep
        self.changes = RemovableHandle.changes  # of hooks, that have been looked at
        self.released = 0
        self.due: float = NEVER  # the number of nodes after which the next node of the walk lets go
        self.recording: Recording
        self.saved: list[Saved | None] = []  # beside the graph's tensors

    def begin(self, recording: Recording, resumed: Diverged | None) -> list[Any]:
        """The inputs of a graph, with what is left of those of a run that goes on in it."""
        earlier = self.recording.taken if resumed is not None else []
        self.recording = recording
        inputs, self.saved = recording.inputs(self.structure)
        if resumed is not None:
            left = {earlier[i]: value for i, value in resumed.inputs.items()}
            for i, place in enumerate(recording.tensors):
                if inputs[i] is None:
                    inputs[i] = left.get(place)
        self._wait()
        return inputs

    def _wait(self) -> None:
        ends = self.recording.ends
        self.due = NEVER if self.keep or self.released == len(ends) else ends[self.released]

    def before(self, done: int, tensors: tuple[int, ...]) -> None:
        """So many nodes are done, and what follows reads these tensors: nodes that have run let go of what they saved,
        and what is read must be as it was saved, for code of the user's may have run meanwhile. Raises VersionError."""
        for i in tensors:
            saved = self.saved[i]
            if saved is not None:
                if done:
                    unpacked(*saved)
                self.saved[i] = None
        if self.due <= done:
            self.let_go(done)

    def let_go(self, done: int) -> None:
        """Nodes of the walk whose nodes are done let go of what they saved."""
        recording, nodes, first = self.recording, self.structure.nodes, self.released
        self.released = bisect_right(recording.ends, done, first)
        for place in recording.runs[first : self.released]:
            nodes[place].release()
        self.due = recording.ends[self.released] if self.released < len(recording.ends) else NEVER

    def hooks_differ(self, done: int) -> bool:
        """Whether nodes that have not run yet have other hooks than their forms say."""
        if self.changes == RemovableHandle.changes:
            return False
        self.changes = RemovableHandle.changes
        return self.structure.hooks_differ(*self._progress(done))

    def stop_after(self, number: int) -> None:
        """The run stops after a node: it goes on in a graph of what is there now."""
        self.structure.resume(*self._progress(number + 1))

    def _progress(self, done: int) -> tuple[set[Node], Node, tuple[int, int]]:
        """Which nodes of the walk are through, once so many of the graph's are, which of them is running, and in which
        stage."""
        recording, nodes = self.recording, self.structure.nodes
        if not done:
            return set(), nodes[0], (-1, 0)
        running = recording.owners[done - 1]
        through = {nodes[place] for place in recording.order[: recording.order.index(running)]}
        if (running, done) in zip(recording.runs, recording.ends, strict=True):
            through.add(nodes[running])
        return through, nodes[running], recording.stages[done - 1]
