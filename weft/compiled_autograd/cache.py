"""The cache of captured backwards, by structure; and what a backward call does with it."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from weft.autograd.anomaly import anomaly
from weft.autograd.engine import Walk
from weft.compiled_autograd.captured import CapturedGraph
from weft.compiled_autograd.graph import build
from weft.compiled_autograd.program import Before, Diverged, Program
from weft.compiled_autograd.schedule import schedule
from weft.compiled_autograd.steps import Key, Pattern, Schedule
from weft.support.counters import counters
from weft.support.errors import StateError
from weft.tensor.modes import modes

Compiler = Callable[[CapturedGraph], Callable[..., Any]]
LONGEST = 50_000  # nodes: a longer backward is walked by the engine, for compiling it would take minutes
LIMIT = 1024  # captured graphs; the one that was not used for the longest time goes first


@dataclass
class Captured:
    """One captured graph, and what its compiler made of it."""

    graph: CapturedGraph
    compiled: dict[Any, Callable[..., Any]] = field(default_factory=dict)

    def run(self, compiler: Compiler, inputs: list[Any], before: Before, resumed: Diverged | None) -> Any:
        """Call what the compiler made of the graph."""
        program = self.compiled.get(compiler)
        if program is None:
            program = self.compiled[compiler] = compiler(self.graph)
        if isinstance(program, Program):
            return program(inputs, before, resumed)
        return program(inputs) if resumed is None else Program(self.graph.graph)(inputs, before, resumed)


class Cache:
    """Captured graphs by the steps that they were built from."""

    def __init__(self) -> None:
        self._found: OrderedDict[Key, Captured] = OrderedDict()
        # what calls of Python gave the last time, by the steps that were expected
        self._patterns: dict[Key, dict[int, Pattern]] = {}
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
            self._patterns.clear()
            self.misses.clear()
            self.last = None

    def lookup(self, plan: Schedule) -> Captured:
        """The captured graph of a schedule: the one that was built from the same steps, or a new one."""
        key = plan.key
        with self._lock:
            self.calls += 1
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
            else:
                counters.captures += 1
                self.misses.append(_reason(plan, self._found))
                structure = _trapped(plan) if trap.is_set else plan
                found = self._found[key] = Captured(
                    CapturedGraph(build(structure), tuple([n.name() for n in plan.origins]))
                )
                while len(self._found) > LIMIT:
                    self._found.popitem(last=False)
            self.last = found.graph
            return found

    def expected(self, key: Key) -> dict[int, Pattern]:
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


def _trapped(plan: Schedule) -> Schedule:
    """The schedule with placeholders for everything but its structure."""
    stripped = Schedule()
    stripped.steps, stripped.outputs, stripped.origins = plan.steps, plan.outputs, plan.origins
    for name in ("tensors", "sizes", "ints", "floats", "objects"):
        setattr(stripped, name, [Placeholder() for _ in getattr(plan, name)])
    return stripped


def run(walk: Walk, compiler: Compiler) -> tuple[Any, ...]:
    """One backward call: by the captured graph of its structure. In anomaly mode, and where a transform or a capture
    is at work, the engine walks itself."""
    if anomaly.enabled or modes.special is not None or modes.capture is not None:
        return walk.run()
    if len(walk.dependencies) > LONGEST:
        return walk.run()
    plan = schedule(walk, {})
    try:
        key = plan.key
    except TypeError:  # a saved value that is no key
        return walk.run()
    patterns = cache.expected(key)
    if patterns:
        plan = schedule(walk, patterns, plan)
    resumed: Diverged | None = None
    call = _Call(plan, walk.keep)
    while True:
        captured = cache.lookup(plan)
        try:
            outputs = captured.run(compiler, call.take(plan), call.before, resumed)
        except Diverged as error:
            if error.pattern is not None:
                patterns = {**{n: p for n, p in patterns.items() if n < error.node}, error.node: error.pattern}
                cache.learn(key, patterns)
            plan.forget(error.node)
            resumed, plan = error, schedule(walk, patterns, plan)
            continue
        call.before(len(plan.steps), ())
        return tuple(outputs)


class _Call:
    """What one backward call lets go of while it runs, and looks at again."""

    def __init__(self, plan: Schedule, keep: bool) -> None:
        self.plan, self.keep = plan, keep
        self.released = 0

    def take(self, plan: Schedule) -> list[Any]:
        """The inputs of a schedule's graph. The schedule keeps no tensor."""
        self.plan = plan
        inputs = plan.inputs()
        plan.tensors[:] = [None] * len(plan.tensors)
        plan.places.clear()
        return inputs

    def before(self, done: int, tensors: tuple[int, ...]) -> None:
        """So many steps are done, and what follows reads these tensors: nodes that have run let go of what they saved,
        and what is read must be as it was saved, for code of the user's may have run meanwhile. Raises VersionError."""
        plan = self.plan
        for i in tensors:
            saved = plan.saved[i]
            if saved is not None:
                if done:
                    saved.packed.unpack(saved.node)
                plan.saved[i] = None
        if self.keep:
            return
        while self.released < len(plan.nodes) and plan.nodes[self.released][0] <= done:
            plan.nodes[self.released][1].release()
            self.released += 1


def _reason(plan: Schedule, found: OrderedDict[Key, Captured]) -> str:
    """Why a backward call has no captured graph yet: where its steps part from those of the graph
    that they follow longest."""
    best, at = None, -1
    for key in found:
        steps = key.structure[0]
        same = next(
            (i for i, (a, b) in enumerate(zip(steps, plan.steps, strict=False)) if a != b),
            min(len(steps), len(plan.steps)),
        )
        if same > at:
            best, at = key, same
    where = plan.origins[min(max(at, 0), len(plan.origins) - 1)] if plan.origins else None
    line = f", {where.forward_line}" if where is not None and where.forward_line else ""
    name = "the end" if where is None else where.name()
    if best is None:
        return f"the first backward of {len(plan.steps)} steps, from {name}{line}"
    return f"step {at} differs from every captured backward: {name}{line}"
