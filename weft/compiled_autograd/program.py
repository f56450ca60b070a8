"""Running a captured backward: parts of pure nodes, each followed by the calls of Python that come behind it.

A call that accumulates into a leaf without hooks gives nothing to anybody: it waits for the end of its part
instead of cutting it. Where much memory is at stake a part ends after a few leaves all the same, so that what was
saved for them is let go of before the gradients of the next ones are made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

from weft.autograd.ownership import nobody_else_has
from weft.compile.program.on_tensors import run_control
from weft.compiled_autograd.direct import is_short
from weft.compiled_autograd.evaluate import Results, Undefined, calling, evaluate_as
from weft.compiled_autograd.turns import Turn, Values, runs_user_code, turns_of
from weft.ir.backward_calls import ACCUMULATE_LEAF
from weft.ir.graph import Block, Graph, Node, Value, map_operand, values_in
from weft.ir.interpreter import last_uses
from weft.support.errors import WeftError
from weft.tensor.dense import is_dense
from weft.types.tensor_type import TENSOR

Places = dict[tuple[int, int], Any]  # results by the number of their node and of the result
Run = Callable[[Values], bool]  # computes the pure nodes of a part; True: each result has memory of its own
# Into about so many parts a backward is cut that is given so many bytes of tensors, of at least so many leaves each. A
# part costs some 20 microseconds more, so that what little memory a small backward could let go of earlier is not worth
# many.
PIECES = ((1 << 17, 12, 1), (1 << 15, 4, 1), (0, 5, 4))


class Progress(Protocol):
    """Who is told how far a run is."""

    def before(self, done: int, tensors: tuple[int, ...]) -> None:
        """The first steps are done, and what follows reads these parameters for the first time."""

    def hooks_differ(self, done: int) -> bool:
        """Whether what the first steps called has changed hooks of what is still to come."""


class Diverged(WeftError):
    """The run cannot go on in this graph, from a node on that is of a step of the walk: hooks have changed, or it gave
    other results than the captured graph goes by; a call of Python: `pattern` says which are there.
    `results` is what is known of the nodes up to that one, `inputs` what is left of the graph's inputs
    by parameter name."""

    def __init__(
        self, node: int, step: int, pattern: tuple[bool, ...] | None, results: Places, inputs: dict[str, Any]
    ) -> None:
        super().__init__("a call in a captured backward did something else than when it was captured")
        self.node, self.step, self.pattern, self.results, self.inputs = node, step, pattern, results, inputs


@dataclass
class Part:
    """Pure nodes, then calls of Python, in order; `last` is the number of nodes of the graph that are done with it."""

    nodes: list[Node] = field(default_factory=list)
    calls: list[tuple[int, Node]] = field(default_factory=list)
    is_piece: bool = False  # whether memory is at stake: nothing is kept between calls
    is_short: bool = False  # whether it lies between calls of Python and has very few formulas
    first: int = 0  # the number of its first node in the graph
    behind: int = 0  # the number behind its last pure node
    last: int = 0
    outputs: tuple[Value, ...] = ()  # of the pure nodes: what is read after them
    tensors: tuple[int, ...] = ()  # parameters of the graph that are first read here, by place
    # tensors of before it that nobody reads once its pure nodes are done
    inner: list[Value] = field(default_factory=list)
    dead: list[Value] = field(default_factory=list)  # what nobody reads once the part is done
    given: set[Value] = field(default_factory=set)  # results of its pure nodes that a leaf alone reads


def parts_of(graph: Graph, leaves: int | None = None, start: int = 0) -> list[Part]:
    """The parts of a captured backward. leaves: how many gradients are accumulated at the end of a part at most;
    start: the number of a node that begins one."""
    is_piece = leaves is not None
    parts = [Part(is_piece=is_piece)]
    for i, node in enumerate(graph.nodes):
        if node.op.effect == "python":
            parts[-1].calls.append((i, node))
        else:
            calls = parts[-1].calls
            is_full = leaves is not None and len(calls) >= leaves
            if i == start or is_full or any(runs_user_code(call) for _, call in calls):
                parts.append(Part(is_piece=is_piece, first=i))
            parts[-1].nodes.append(node)
            parts[-1].behind = i + 1
        parts[-1].last = i + 1
    _find_uses(graph, parts)
    for part in parts:
        part.is_short = len(parts) > 2 and is_short(part.nodes)
    return parts


def _find_uses(graph: Graph, parts: list[Part]) -> None:
    """What is read after the pure nodes of each part, and what is dead after the part."""
    wanted = {v for r in graph.results for v in values_in(r)}
    last: dict[Value, Part] = dict.fromkeys(graph.params, parts[-1])
    for part in parts:
        for node in (*part.nodes, *(call for _, call in part.calls)):
            last.update(dict.fromkeys((*node.needs(), *node.outputs), part))
    places = {v: i for i, v in enumerate(graph.params) if v.type is TENSOR}
    for part in parts:
        read = {v for node in (*part.nodes, *(call for _, call in part.calls)) for v in node.needs()}
        part.tensors = tuple(sorted(places.pop(v) for v in read if v in places))
        called = {v for _, call in part.calls for v in call.inputs()}
        part.outputs = tuple(
            [v for node in part.nodes for v in node.outputs if v in called or v in wanted or last[v] is not part]
        )
    uses = Counter(v for node in graph.nodes for v in node.needs())
    for part in parts:
        made = {v for node in part.nodes for v in node.outputs}
        part.given = {
            v for _, call in part.calls if call.op is ACCUMULATE_LEAF for v in call.inputs()
            if v in made and v not in wanted and uses[v] == 1
        }
    by_calls = {v for node in graph.nodes if node.op.effect == "python" for v in (*node.needs(), *node.outputs)}
    makers = {v: part for part in parts for node in part.nodes for v in node.outputs}
    for value, part in last.items():
        if value not in wanted and (value in by_calls or (value.type is TENSOR and makers.get(value) is not part)):
            (part.dead if value in by_calls else part.inner).append(value)


def _take(call: Node, place: Value, values: Values) -> bool:
    """A leaf takes a gradient that nobody else has. False where somebody does."""
    if not nobody_else_has(values, place):
        return False
    values[cast(Value, call.args[0])].take(values[place])
    return True


_Parts = tuple[list[Part], Sequence[Run | None]]


@runtime_checkable
class Staged(Protocol):
    """A run that keeps what the compiler made of it."""

    @property
    def has_run(self) -> bool: ...

    def stages(self) -> dict[str, Any]: ...


class Program:
    """A captured graph that can be called with its inputs, in the order of its parameters. Gives its outputs.

    The list of inputs is emptied: what only the program needs is let go as soon as nobody reads it any more.
    """

    def __init__(
        self, graph: Graph, compile_part: Callable[[Part], Run] | None = None, steps: Sequence[int] | None = None
    ) -> None:
        """steps: for each node the number of the step of the walk that it belongs to; None: one node for each."""
        self.graph = graph
        self._steps = None if steps is None else [*steps, steps[-1] + 1 if steps else 0]
        self._compile = interpret_part if compile_part is None else compile_part
        self.parts = parts_of(graph, 1 if compile_part is None else None)
        self._runs = self._compiled(self.parts)
        self._turns = turns_of(graph, self._calling, self._steps_of)
        self._names = {p.name: p for p in graph.params}
        self._tensors = sum(p.type is TENSOR for p in graph.params)
        leaves = sum(node.op is ACCUMULATE_LEAF for node in graph.nodes)
        self._leaves = leaves if compile_part is not None and leaves > 1 else 0
        self._pieces: dict[int, _Parts] = {}  # by how many leaves end one
        self._resumed: dict[int, _Parts] = {}  # by the number of the first node that is run

    def _compiled(self, parts: list[Part]) -> Sequence[Run | None]:
        return [self._compile(part) if part.nodes else None for part in parts]

    def _parts(self, tensors: list[Any], start: int) -> _Parts:
        """The parts of a call with these tensors that begins at a node: one of them begins there."""
        if start:
            if not any(part.first < start < part.behind for part in self.parts):
                return self.parts, self._runs
            if start not in self._resumed:
                parts = parts_of(self.graph, start=start)
                self._resumed[start] = (parts, self._compiled(parts))
            return self._resumed[start]
        if not self._leaves:
            return self.parts, self._runs
        held = sum([t._data.nbytes for t in tensors if is_dense(t)])
        pieces, fewest = next((count, fewest) for least, count, fewest in PIECES if held >= least)
        leaves = max(-(-self._leaves // pieces), fewest)
        if leaves >= self._leaves:
            return self.parts, self._runs
        if leaves not in self._pieces:
            parts = parts_of(self.graph, leaves)
            self._pieces[leaves] = (parts, self._compiled(parts))
        return self._pieces[leaves]

    def stages(self) -> list[dict[str, Any]]:
        """For each part that has run natively: its latest program at each stage of the compiler, from `captured`
        (opened, with symbols for sizes) to `llvm`."""
        runs = [*self._runs, *(run for _, runs in (*self._pieces.values(), *self._resumed.values()) for run in runs)]
        staged = [cast(Staged, run) for run in runs if isinstance(run, Staged)]
        return [run.stages() for run in staged if run.has_run]

    def __call__(
        self, inputs: list[Any], progress: Progress | None = None, resumed: Diverged | None = None
    ) -> list[Any]:
        """Run. resumed: go on where another graph of the same call diverged, whose nodes are the same up to there."""
        start = 0 if resumed is None else resumed.node + 1
        parts, runs = self._parts(inputs[: self._tensors], start)
        values: Values = dict(zip(self.graph.params, inputs, strict=True))
        inputs.clear()
        if resumed is not None:
            values.update((self._names[name], value) for name, value in resumed.inputs.items())
            for (i, j), value in resumed.results.items():
                values[self.graph.nodes[i].outputs[j]] = value
        done = 0
        turns = self._turns
        for part, run in zip(parts, runs, strict=True):
            if part.last > start:
                if progress is not None and (part.tensors or not part.is_short):
                    progress.before(self._steps_of(done), part.tensors)
                given: Collection[Value] = ()
                if run is not None and part.first >= start:
                    try:
                        given = part.given if run(values) else ()
                    except Undefined:
                        raise self._diverged(part.first - 1, None, values) from None
                for value in part.inner:
                    values.pop(value, None)
                for i, call in part.calls:
                    if i >= start:
                        turn = turns[call]
                        watcher = progress if turn.is_users else None
                        if watcher is not None:
                            watcher.before(turn.step, ())
                        gradient = turn.gradient
                        if gradient is None:
                            self._call(i, turn, values)
                        elif gradient in given:
                            values[cast(Value, call.args[0])].take(values.pop(gradient))
                        elif not (turn.is_last and _take(call, gradient, values)):
                            self._call(i, turn, values)
                        if watcher is not None and watcher.hooks_differ(turn.next_step):
                            raise self._diverged(i, None, values)
                        for value in turn.ends:  # what it gave may be the same tensor, one again now
                            values.pop(value, None)
                for value in part.dead:
                    values.pop(value, None)
            done = part.last
        return [map_operand(r, values) for r in self.graph.results]

    def _steps_of(self, nodes: int) -> int:
        """How many steps are done with the first nodes."""
        return nodes if self._steps is None else self._steps[nodes]

    def _calling(self, call: Node) -> Callable[..., Results]:
        """What gives the results of a call of Python."""
        return calling(call.op)

    def _call(self, i: int, turn: Turn, values: Values) -> None:
        results = turn.call(*turn.read(values))
        if len(turn.outputs) == 1 == len(results):  # as most have
            values[turn.outputs[0]] = results[0]
            is_other = (results[0] is not None) is not turn.there[0]
        else:
            values.update(zip(turn.outputs, results, strict=True))
            is_other = tuple([r is not None for r in results]) != turn.there
        if is_other:
            raise self._diverged(i, tuple([r is not None for r in results]), values)

    def _diverged(self, last: int, pattern: tuple[bool, ...] | None, values: Values) -> Diverged:
        """The end of this graph's run, after node number `last`."""
        places = {
            (n, j): values[v] for n, node in enumerate(self.graph.nodes[: last + 1])
            for j, v in enumerate(node.outputs) if v in values
        }
        left = {p.name: values[p] for p in self.graph.params if p.type is TENSOR and p in values}
        return Diverged(last, self._steps_of(last + 1) - 1, pattern, places, left)


def interpret_part(part: Part, evaluate_node: Callable[[Node, tuple[Any, ...]], tuple[Any, ...]] = evaluate_as) -> Run:
    """Run the pure nodes of a part one by one, with tensors. A value is let go after its last use."""
    finished = last_uses(Block((), tuple(part.nodes), tuple(part.outputs)))

    def run(values: Values) -> bool:
        for node, done in zip(part.nodes, finished, strict=True):
            if node.blocks:
                results = run_control(node, values)
            else:
                results = evaluate_node(node, tuple([map_operand(a, values) for a in node.args]))
            values.update(zip(node.outputs, results, strict=True))
            for value in done:
                del values[value]
        return False

    return run
