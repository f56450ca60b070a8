"""The cache of captured backwards, by structure; and what a backward call does with it."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.autograd.anomaly import anomaly
from weft.autograd.engine import Walk
from weft.compiled_autograd.captured import CapturedGraph
from weft.compiled_autograd.graph import build
from weft.compiled_autograd.program import Diverged, Program
from weft.compiled_autograd.reasons import reason
from weft.compiled_autograd.recall import Recall, Recollections
from weft.compiled_autograd.schedule import Scheduler, schedule
from weft.compiled_autograd.steps import Key, Pattern, Schedule
from weft.compiled_autograd.turns import Progress
from weft.compiled_autograd.watched import Watched
from weft.compiled_autograd.writer import unpacked
from weft.support.counters import counters
from weft.support.errors import StateError
from weft.tensor.modes import modes
from weft.types.unbacked import alive

Compiler = Callable[[CapturedGraph], Callable[..., Any]]
LIMIT = 1024  # captured graphs; the one that was not used for the longest time goes first
MOST_NODES = 1_000_000  # of all captured graphs: the same where they are long
NEVER = float("inf")
LONG = 50_000  # nodes: of a longer walk nothing is kept but its graph


@dataclass
class Captured:
    """One captured graph, and what its compiler made of it."""

    key: Key
    graph: CapturedGraph
    compiled: dict[Any, Callable[..., Any]] = field(default_factory=dict)
    has_run: bool = False  # to its end

    def run(self, compiler: Compiler, inputs: list[Any], progress: Progress, resumed: Diverged | None) -> Any:
        """Call what the compiler made of the graph."""
        program = self.compiled.get(compiler)
        if program is None:
            program = self.compiled[compiler] = compiler(self.graph)
        if isinstance(program, Program):
            return program(inputs, progress, resumed)
        if resumed is None:
            return program(inputs)
        return Program(self.graph.graph, steps=self.graph.steps)(inputs, progress, resumed)


class Cache:
    """Captured graphs by the steps that they were built from."""

    def __init__(self) -> None:
        self._found: OrderedDict[Key, Captured] = OrderedDict()
        self._nodes = 0  # of their graphs
        # what calls of Python gave the last time, by the steps that were expected
        self._patterns: dict[Key, dict[int, Pattern]] = {}
        self.recollections = Recollections()
        self._lock = threading.RLock()
        self.calls = 0  # backward calls that ran by a captured graph
        self.misses: deque[str] = deque(maxlen=LIMIT)
        self.last: CapturedGraph | None = None

    def __len__(self) -> int:
        return len(self._found)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._found.clear()
            self._nodes = 0
            self._patterns.clear()
            self.recollections.clear()
            self.misses.clear()
            self.last = None

    def graph(self, key: Key) -> Captured | None:
        """The captured graph of a structure, if there is one."""
        return self._found.get(key)

    def known(self, key: Key) -> Key | None:
        """The key of the graph of this structure, if there is one."""
        found = self._found.get(key)
        return None if found is None else found.key

    def lookup(self, plan: Schedule, is_verbose: bool = False) -> Captured:
        """The captured graph of a schedule: the one that was built from the same steps, or a new one, printed with
        its reason if asked."""
        key = plan.key
        with self._lock:
            self.calls += 1
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            else:
                counters.captures += 1
                why = reason(plan, self._found)
                self.misses.append(why)
                graph, steps = build(_trapped(plan) if trap.is_set else plan)
                found = self._found[key] = Captured(key, CapturedGraph(graph, plan.calls(), steps))
                if is_verbose:
                    print(f"compiled autograd: {why}\n{found.graph.explain()}", file=sys.stderr)
                self._nodes += len(graph.nodes)
                self._forget()
            self.last = found.graph
            return found

    def drop(self, captured: Captured) -> None:
        """Take a graph back whose first run has shown that a call of Python gives something else than was guessed, so
        that the rest of it was never run: the one that goes by what it gives is the capture."""
        with self._lock:
            if self._found.pop(captured.key, None) is not None:
                self._nodes -= len(captured.graph.graph.nodes)
                self.misses.pop()
                counters.captures -= 1

    def _forget(self) -> None:
        """Let go of graphs beyond the limits, but for the latest one."""
        while len(self._found) > 1 and (len(self._found) > LIMIT or self._nodes > MOST_NODES):
            self._nodes -= len(self._found.popitem(last=False)[1].graph.graph.nodes)

    def expected(self, key: Key) -> Mapping[int, Pattern]:
        """What calls of Python gave the last time."""
        return self._patterns.get(key, {})

    def learn(self, key: Key, patterns: dict[int, Pattern]) -> None:
        """Remember what calls of Python gave."""
        with self._lock:
            if len(self._patterns) > LIMIT:
                self._patterns.clear()
            self._patterns[key] = patterns


cache = Cache()


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


def _trapped(plan: Schedule) -> Schedule:
    """The schedule with placeholders for everything but its structure."""
    stripped = Schedule()
    stripped.steps, stripped.outputs = plan.steps, plan.outputs
    stripped.live, stripped.owners = plan.live, plan.owners
    for name in ("tensors", "sizes", "numbers", "ints", "floats", "objects"):
        setattr(stripped, name, [Placeholder() for _ in getattr(plan, name)])
    return stripped


def run(walk: Walk, compiler: Compiler, is_verbose: bool = False) -> tuple[Any, ...]:
    """One backward call: by the captured graph of its structure. While a capture records, the engine walks itself."""
    if modes.capture is not None:
        return walk.run()
    if alive[0]:
        for node in (*walk.dependencies, *(root for root, _ in walk.roots)):
            node.find_sizes()
    found = _plan(walk)
    if found is None:
        counters.walked_backwards += 1
        return walk.run()
    counters.compiled_backwards += 1
    plan, key, patterns = found
    resumed: Diverged | None = None
    call = _Call(plan, walk.keep)
    while True:
        known = cache.graph(plan.key)
        captured = cache.lookup(plan, is_verbose)
        # what formulas leave out is known once they have run, so that only code of the user's changes the way then
        call.certain = plan.recall.last_call if captured.has_run and plan.recall is not None else len(plan.steps) - 1
        try:
            if anomaly.enabled:
                outputs = Watched(captured.graph, plan)(call.take(plan), call, resumed)
            else:
                outputs = captured.run(compiler, call.take(plan), call, resumed)
        except Diverged as error:
            error.__traceback__ = error.__context__ = None  # nothing of the run is kept that the error does not name
            if error.pattern is not None:
                patterns = {**{n: p for n, p in patterns.items() if n < error.step}, error.step: error.pattern}
                cache.learn(key, patterns)
                if not captured.has_run and captured is not known:
                    cache.drop(captured)
                if plan.recall is not None:
                    cache.recollections.drop(walk, plan.recall)
            plan.forget(error.step)
            resumed, plan = error, schedule(walk, patterns, plan)
            continue
        captured.has_run = True
        call.before(len(plan.steps), ())
        return tuple(outputs)


def _plan(walk: Walk) -> tuple[Schedule, Key, Mapping[int, Pattern]] | None:
    """The schedule of a backward call, the key of its structure, and what its calls of Python are expected to give;
    None for what is not compiled."""
    plan = cache.recollections.find(walk)
    if plan is not None:
        return plan, plan.recall.origin, plan.recall.patterns
    scheduler = Scheduler(walk, {}).run()
    try:
        key = scheduler.out.key
    except TypeError:  # a saved value that is no key
        return None
    patterns = cache.expected(key)
    if patterns:
        scheduler = Scheduler(walk, patterns, scheduler.out).run()
    known = cache.known(scheduler.out.key)
    if known is not None and len(scheduler.out.live) <= LONG:  # it comes again: worth remembering
        scheduler.out.key = known
        cache.recollections.keep(walk, Recall(walk, scheduler, key))
    return scheduler.out, key, patterns


class _Call:
    """What one backward call lets go of while it runs, and looks at again."""

    def __init__(self, plan: Schedule, keep: bool) -> None:
        self.plan, self.hooks = plan, plan.hooks
        self.released = 0
        self.certain = 0  # behind so many steps and one the run is sure to go on in this graph
        self.due = NEVER if keep or not plan.ends else plan.ends[0]  # the steps of the next node that lets go

    def take(self, plan: Schedule) -> list[Any]:
        """The inputs of a schedule's graph. The schedule keeps no tensor."""
        self.plan, self.hooks = plan, plan.hooks
        if self.due is not NEVER:
            self.due = plan.ends[self.released] if self.released < len(plan.ends) else NEVER
        inputs = plan.inputs()
        plan.tensors[:] = [None] * len(plan.tensors)
        plan.objects.clear()
        return inputs

    def before(self, done: int, tensors: tuple[int, ...]) -> None:
        """So many steps are done, and what follows reads these tensors: nodes that have run let go of what they saved,
        and what is read must be as it was saved, for code of the user's may have run meanwhile. Raises VersionError."""
        saved_tensors = self.plan.saved
        for i in tensors:
            saved = saved_tensors[i]
            if saved is not None:
                if done:
                    packed, node = saved
                    unpacked(packed, node)
                saved_tensors[i] = None
        if self.due <= done:
            self.let_go(done)

    def let_go(self, done: int) -> None:
        """Nodes whose steps are done let go of what they saved."""
        plan = self.plan
        at, ends, nodes = self.released, plan.ends, plan.nodes
        remembers = done <= self.certain
        holds_numbers = plan.holds_numbers
        while ends[at] <= done:
            node: Any = nodes[at]
            if at in holds_numbers:
                if remembers:
                    plan.known[node] = node.saved_values
                node.saved_values = None
            else:
                if remembers:
                    plan.remember(node, at)
                node.release()
            at += 1
            if at == len(ends):
                self.due = NEVER
                break
        else:
            self.due = ends[at]
        self.released = at

    def hooks_differ(self, done: int) -> bool:
        """Whether nodes that have not run yet have other hooks than their steps were written with."""
        plan = self.plan
        if not plan.hooks.have_changed():
            return False
        finished = {node for node, end in zip(plan.nodes, plan.ends, strict=True) if end <= done}
        return plan.hooks.differ([node for node in plan.live if node not in finished], done)
