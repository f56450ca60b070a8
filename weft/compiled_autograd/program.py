"""Running a captured backward: part by part (parts.py), each by code of its own (part_code.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

from weft.autograd.node import RemovableHandle
from weft.compiled_autograd.evaluate import calling
from weft.compiled_autograd.part_code import PartCode, Progress, RunPart, Stopped
from weft.compiled_autograd.parts import BackwardPart, Run, Values, interpret_part, parts_of
from weft.ir.backward_calls import ACCUMULATE_LEAF
from weft.ir.graph import Graph, Node, map_operand
from weft.ir.graph_breaks import uses_of
from weft.support.errors import WeftError
from weft.tensor.dense import is_dense
from weft.types.tensor_type import TENSOR

Places = dict[tuple[int, int], Any]  # results by the number of their node and of the result
# A backward that is given so many bytes of tensors has about so many parts, of at least so many leaves each. A
# part costs some 20 microseconds more, so that what little memory a small backward could let go of earlier is not worth
# many.
PIECES = ((1 << 17, 12, 1), (1 << 15, 4, 1), (0, 5, 4))


class Diverged(WeftError):
    """The run cannot go on in this graph after a node: hooks have changed, or it gave other results than the captured
    graph goes by; a call of Python: `pattern` says which are there. `results` is what is known of the nodes up to that
    one, `inputs` what is left of the graph's tensors, by the number of the parameter."""

    def __init__(
        self, node: int, pattern: tuple[bool, ...] | None, results: Places, inputs: dict[int, Any]
    ) -> None:
        super().__init__("a call in a captured backward did something else than when it was captured")
        self.node, self.pattern, self.results, self.inputs = node, pattern, results, inputs


class _Sequence(NamedTuple):
    """The parts of a run, in order: what computes the pure nodes of each, and what runs it."""

    runs: Sequence[Run | None]
    functions: Sequence[RunPart]


class _Unwatched:
    """Nobody is told how far a run is."""

    due = float("inf")

    @property
    def changes(self) -> int:
        """No hook is known."""
        return RemovableHandle.changes

    def before(self, done: int, tensors: tuple[int, ...]) -> None:
        """Nothing is to be looked at."""

    def let_go(self, done: int) -> None:
        """Nothing is held."""

    def hooks_differ(self, done: int) -> bool:
        """No hook is known."""
        return False


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

    def __init__(self, graph: Graph, compile_part: Callable[[BackwardPart], Run] | None = None) -> None:
        self.graph = graph
        self._compile = interpret_part if compile_part is None else compile_part
        self._uses = uses_of(graph)
        self._code = PartCode(graph, self._uses)
        self.parts = parts_of(graph, self._uses, 1 if compile_part is None else None)
        self._whole = self._sequence(self.parts)
        self._tensors = sum(p.type is TENSOR for p in graph.params)
        leaves = sum(node.op is ACCUMULATE_LEAF for node in graph.nodes)
        self._leaves = leaves if compile_part is not None and leaves > 1 else 0
        self._pieces: dict[int, _Sequence] = {}  # by how many leaves end one
        self._resumed: dict[int, _Sequence] = {}  # by the number of the first node that is run

    def _sequence(
        self, parts: list[BackwardPart], runs: Sequence[Run | None] | None = None, start: int = 0
    ) -> _Sequence:
        """What runs parts, from a node on. runs: what computes their pure nodes, if that is known."""
        if runs is None:
            runs = [self._compile(part) if part.nodes else None for part in parts]
        done = [0, *[part.last for part in parts[:-1]]]
        return _Sequence(runs, [
            self._code.function(self, part, run, before, start)
            for part, run, before in zip(parts, runs, done, strict=True) if part.last > start or not start
        ])

    def _from(self, start: int) -> _Sequence:
        """The parts of a call that begins at a node: one of them begins there, if it is a pure one."""
        if start not in self._resumed:
            if any(part.first < start < part.after for part in self.parts):
                sequence = self._sequence(parts_of(self.graph, self._uses, start=start), None, start)
            else:
                sequence = self._sequence(self.parts, self._whole.runs, start)
            self._resumed[start] = sequence
        return self._resumed[start]

    def _for(self, tensors: list[Any]) -> _Sequence:
        """The parts of a call with these tensors."""
        if not self._leaves:
            return self._whole
        held = sum([t._data.nbytes for t in tensors if is_dense(t)])
        pieces, fewest = next((count, fewest) for least, count, fewest in PIECES if held >= least)
        leaves = max(-(-self._leaves // pieces), fewest)
        if leaves >= self._leaves:
            return self._whole
        if leaves not in self._pieces:
            self._pieces[leaves] = self._sequence(parts_of(self.graph, self._uses, leaves))
        return self._pieces[leaves]

    @property
    def runs(self) -> list[Run | None]:
        """What computes the pure nodes of parts, of all that the graph has been split into."""
        sequences = (self._whole, *self._pieces.values(), *self._resumed.values())
        return list(dict.fromkeys(run for sequence in sequences for run in sequence.runs))

    def stages(self) -> list[dict[str, Any]]:
        """For each part that has run natively: its latest program at each stage of the compiler, from `captured`
        (opened, with symbols for sizes) to `llvm`."""
        staged = [cast(Staged, run) for run in self.runs if isinstance(run, Staged)]
        return [run.stages() for run in staged if run.has_run]

    def __call__(
        self, inputs: list[Any], progress: Progress | None = None, resumed: Diverged | None = None
    ) -> list[Any]:
        """Run. resumed: go on where another graph of the same call diverged, whose nodes are the same up to there."""
        sequence = self._for(inputs[: self._tensors]) if resumed is None else self._from(resumed.node + 1)
        values: Values = dict(zip(self.graph.params, inputs, strict=True))
        inputs.clear()
        if resumed is not None:
            for (i, j), value in resumed.results.items():
                values[self.graph.nodes[i].outputs[j]] = value
        if progress is None:
            progress = _Unwatched()
        try:
            for function in sequence.functions:
                function(values, progress)
        except Stopped as stopped:
            raise self._diverged(stopped.node, stopped.pattern, values) from None
        return [map_operand(r, values) for r in self.graph.results]

    def called(self, call: Node) -> tuple[Callable[..., Any], bool]:
        """What gives the results of a call of Python; and whether it gives the one result that there is, no tuple."""
        return calling(call.op)

    def _diverged(self, last: int, pattern: tuple[bool, ...] | None, values: Values) -> Diverged:
        """The end of this graph's run, after node number `last`."""
        places = {
            (n, j): values[v] for n, node in enumerate(self.graph.nodes[: last + 1])
            for j, v in enumerate(node.outputs) if v in values
        }
        left = {i: values[p] for i, p in enumerate(self.graph.params) if p.type is TENSOR and p in values}
        return Diverged(last, pattern, places, left)
