"""The code that runs a part of a captured backward: what is known of each call of Python before it is made stands in
its lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from weft.autograd.node import RemovableHandle
from weft.autograd.ownership import nobody_else_has
from weft.compiled_autograd.direct import fitting, operand_text
from weft.compiled_autograd.evaluate import Undefined
from weft.compiled_autograd.parts import Part, Run, Values, runs_user_code
from weft.ir.backward_calls import ACCUMULATE_LEAF, CHECK_GRADIENT, POST_HOOK_CALL
from weft.ir.graph import Graph, Node, Operand, Value, values_in
from weft.support.errors import WeftError
from weft.support.generated import FunctionWriter
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import NONE, TENSOR


class Progress(Protocol):
    """Who is told how far a run is.

    due: once so many nodes are done, something is to be let go of. changes: of hooks, by which the run goes.
    """

    due: float

    @property
    def changes(self) -> int: ...

    def before(self, done: int, tensors: tuple[int, ...]) -> None:
        """The first nodes are done, and what follows reads these parameters for the first time."""

    def let_go(self, done: int) -> None:
        """The first nodes are done, and what they alone have read is needed no more."""

    def hooks_differ(self, done: int) -> bool:
        """Whether what the first nodes called has changed hooks of what is still to come."""


class Caller(Protocol):
    """Who runs a graph."""

    def called(self, call: Node) -> tuple[Callable[..., Any], bool]:
        """What gives the results of a call of Python; and whether it gives the one result that there is, no tuple."""


class Stopped(WeftError):
    """The run cannot go on in this graph behind a node: hooks have changed, or another pattern of results is there."""

    def __init__(self, node: int, pattern: tuple[bool, ...] | None) -> None:
        super().__init__("a call in a captured backward did something else than when it was captured")
        self.node, self.pattern = node, pattern


RunPart = Callable[[Values, Progress], None]


class Turns:
    """What is known of one graph's calls of Python."""

    def __init__(self, graph: Graph) -> None:
        self.last_leaves, self.ends = _last_reads(graph)

    def function(self, caller: Caller, part: Part, run: Run | None, done: int, start: int = 0) -> RunPart:
        """What runs a part. done: how many nodes are done before it; start: the number of the first node that is run.
        Raises Stopped."""
        return _Lines(self, caller, part, run).function(done, start)


class _Lines:
    """The lines of one part: `v` are the values of the run, `p` is who is told."""

    def __init__(self, turns: Turns, caller: Caller, part: Part, run: Run | None) -> None:
        self.turns, self.caller, self.part, self.run = turns, caller, part, run
        self.code = FunctionWriter(
            "part", "part(v, p)", Handle=RemovableHandle, Stopped=Stopped, Tensor=Tensor, Undefined=Undefined,
            modes=modes, take=_take,
        )
        self.name = self.code.name
        self.ended: set[Value] = set()

    def function(self, done: int, start: int) -> RunPart:
        part, name = self.part, self.name
        if part.tensors or not part.is_short:
            self._add(f"p.before({done}, {name(part.tensors)})")
        is_run = self.run is not None and part.first >= start
        if self.run is not None and is_run:
            self._pure(self.run)
        self._pop(part.inner)
        for i, call in part.calls:
            if i >= start:
                self._turn(i, call, is_run)
        self._pop([v for v in part.dead if v not in self.ended])
        self._add("return")
        return self.code.function()

    def _add(self, *lines: str) -> None:
        self.code.lines += lines

    def _pop(self, values: Sequence[Value]) -> None:
        """Let go of values, as far as they are there."""
        self._add(*[f"v.pop({self.name(value)}, None)" for value in values])

    def _pure(self, run: Run) -> None:
        """The part's nodes: directly where they are few, and small."""
        name = self.name
        direct = getattr(run, "direct", None)
        call = f"given = {name(run)}(v)"
        lines = [call]
        if direct is not None:
            self._add("given = False")
            lines = [f"if modes.grad or modes.special is not None or not {name(direct)}(v): {call}"]
        self._add("try:", *[f"    {line}" for line in lines])
        self._add(f"except Undefined: raise Stopped({name(self.part.first - 1)}, None) from None")

    def _turn(self, i: int, call: Node, is_run: bool) -> None:
        """A call of Python, behind what is to be let go of before it; then what it changed is looked at."""
        is_users = runs_user_code(call) and call.op is not CHECK_GRADIENT
        if is_users:
            self._add(f"if p.due <= {i}: p.let_go({i})")
        gradient = call.args[1] if call.op is ACCUMULATE_LEAF else None
        if type(gradient) is Value:
            self._leaf(i, call, gradient, is_run)
        else:
            self._add(*self._call(i, call))
        if is_users:
            self._add(f"if Handle.changes != p.changes and p.hooks_differ({i + 1}): raise Stopped({i}, None)")
        ends = self.turns.ends.get(call, [])  # what it gave may be the same tensor, one again now
        self._pop(ends)
        self.ended.update(ends)

    def _leaf(self, i: int, call: Node, gradient: Value, is_run: bool) -> None:
        """A leaf takes a gradient that nobody else has, or adds up."""
        leaf, taken = self.name(call.args[0]), self.name(gradient)
        otherwise = self._call(i, call)
        if call in self.turns.last_leaves:
            otherwise = [f"if not take(v, {leaf}, {taken}):", *[f"    {line}" for line in otherwise]]
        if is_run and gradient in self.part.given:
            otherwise = [
                f"if given: v[{leaf}].take(v.pop({taken}))", "else:", *[f"    {line}" for line in otherwise]
            ]
        self._add(*otherwise)

    def _call(self, i: int, call: Node) -> list[str]:
        """Make the call. Stops where other results are there than the graph goes by."""
        outputs, name = call.outputs, self.name
        function, gives_one = self.caller.called(call)
        call_text = f"{name(function)}({', '.join([self._operand(a) for a in call.args])})"
        if not outputs:
            return [call_text]
        results = [f"r{j}" for j in range(len(outputs))]
        take = results[0] if gives_one else f"({''.join([r + ', ' for r in results])})"
        differs = [f"{r} is {'' if v.type is NONE else 'not '}None" for r, v in zip(results, outputs, strict=True)]
        pattern = "".join([f"{r} is not None, " for r in results])
        lines = [f"{take} = {call_text}"]
        if call.op is CHECK_GRADIENT:
            _, _, gradient, dims, dtype = call.args
            sizes = "".join([self._operand(n) + ", " for n in dims])
            lines = [
                f"gradient = {self._operand(gradient)}",
                f"if type(gradient) is not Tensor: {lines[0]}",
                "else:",
                *[f"    {line}" for line in fitting("gradient", name(dtype.numpy), sizes, results[0], lines[0])],
                "gradient = data = None",
            ]
        return [
            *lines,
            *[f"v[{name(v)}] = {r}" for v, r in zip(outputs, results, strict=True)],
            f"if not ({' and '.join(differs)}): raise Stopped({name(i)}, ({pattern}))",
            f"del {', '.join(results)}",  # (whether a gradient is known elsewhere is asked later)
        ]

    def _operand(self, operand: Operand) -> str:
        return operand_text(operand, self.code, lambda value: f"v[{self.name(value)}]")


def _take(values: Values, leaf: Value, gradient: Value) -> bool:
    """A leaf takes a gradient that nobody else has. False where somebody does."""
    if not nobody_else_has(values, gradient):
        return False
    values[leaf].take(values[gradient])
    return True


def _last_reads(graph: Graph) -> tuple[set[Node], dict[Node, list[Value]]]:
    """The leaves' calls whose gradient nobody reads afterwards but hooks on the leaf's own node; and of calls of
    Python, which of the values they are given nobody reads afterwards."""
    last: dict[Value, Node] = {}
    for node in graph.nodes:
        if node.op is not POST_HOOK_CALL:
            last.update(dict.fromkeys(node.inputs(), node))
    by_hooks = {  # what hooks on other nodes than leaves read again
        v for node in graph.nodes if node.op is POST_HOOK_CALL and node.args[1] for v in node.inputs()
    }
    by_hooks.update(v for r in graph.results for v in values_in(r))
    leaves = {
        node for node in graph.nodes
        if node.op is ACCUMULATE_LEAF and isinstance(v := node.args[1], Value) and last[v] is node and v not in by_hooks
    }
    read_later = {v for node in graph.nodes if node.op is POST_HOOK_CALL for v in node.inputs()} | by_hooks
    ends: dict[Node, list[Value]] = {}
    for value, node in last.items():
        if node.op.effect == "python" and value.type is TENSOR and value not in read_later:
            ends.setdefault(node, []).append(value)
    return leaves, ends
