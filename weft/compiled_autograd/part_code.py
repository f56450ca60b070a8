"""The code that runs a part of a captured backward: what is known of each call of Python before it is made stands in
its lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from weft.autograd.node import RemovableHandle
from weft.autograd.ownership import nobody_else_has
from weft.compiled_autograd.direct import fitting, operand_text
from weft.compiled_autograd.evaluate import Undefined
from weft.compiled_autograd.parts import BackwardPart, Run, Values, runs_user_code
from weft.ir.backward_calls import ACCUMULATE_LEAF, CHECK_GRADIENT, POST_HOOK_CALL
from weft.ir.graph import Graph, Node, Operand, Value
from weft.ir.graph_breaks import Call, Uses
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
    """The run cannot go on in this graph after a node: hooks have changed, or another pattern of results is there."""

    def __init__(self, node: int, pattern: tuple[bool, ...] | None) -> None:
        super().__init__("a call in a captured backward did something else than when it was captured")
        self.node, self.pattern = node, pattern


RunPart = Callable[[Values, Progress], None]


class PartCode:
    """Writes what runs the parts of one graph.

    may_take: leaves' calls that may take their gradient as it is, for nobody reads it afterwards; ends: of calls of
    Python, which of the values they are given nobody reads afterwards.
    """

    def __init__(self, graph: Graph, uses: Uses) -> None:
        self.may_take, self.ends = _last_reads(graph, uses)

    def function(self, caller: Caller, part: BackwardPart, run: Run | None, done: int, start: int = 0) -> RunPart:
        """What runs a part. done: how many nodes are done before it; start: the number of the first node that is run.
        Raises Stopped."""
        return _Lines(self, caller, part, run).function(done, start)


class _Lines:
    """The lines of one part: `v` are the values of the run, `p` is its progress."""

    def __init__(self, graph: PartCode, caller: Caller, part: BackwardPart, run: Run | None) -> None:
        self.graph, self.caller, self.part, self.run = graph, caller, part, run
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
        self._pop(part.dead_before_calls)
        for call in part.calls:
            if call.number >= start:
                self._python_call(call, is_run)
        self._pop([v for v in part.dead_after_calls if v not in self.ended])
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
        call = f"owned = {name(run)}(v)"
        lines = [call]
        if direct is not None:
            self._add("owned = False")
            lines = [f"if modes.grad or modes.special is not None or not {name(direct)}(v): {call}"]
        self._add("try:", *[f"    {line}" for line in lines])
        self._add(f"except Undefined: raise Stopped({name(self.part.first - 1)}, None) from None")

    def _python_call(self, python_call: Call, is_run: bool) -> None:
        """A call of Python, after what is to be let go of before it; then what it changed is looked at."""
        i, call, _ = python_call
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
        ends = self.graph.ends.get(call, [])  # what it gave may be the same tensor, one again now
        self._pop(ends)
        self.ended.update(ends)

    def _leaf(self, i: int, call: Node, gradient: Value, is_run: bool) -> None:
        """A leaf takes a gradient that nobody else has, or adds up."""
        leaf, taken = self.name(call.args[0]), self.name(gradient)
        otherwise = self._call(i, call)
        if call in self.graph.may_take:
            otherwise = [f"if not take(v, {leaf}, {taken}):", *[f"    {line}" for line in otherwise]]
        if is_run and gradient in self.part.for_leaves:
            otherwise = [
                f"if owned: v[{leaf}].take(v.pop({taken}))", "else:", *[f"    {line}" for line in otherwise]
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


def _last_reads(graph: Graph, uses: Uses) -> tuple[set[Node], dict[Node, list[Value]]]:
    """PartCode's may_take and ends. Hooks that run after a leaf has taken its gradient get the leaf's own; those on
    other nodes read again what the node was given."""
    may_take: set[Node] = set()
    ends: dict[Node, list[Value]] = {}
    for value, numbers in uses.items():
        if numbers[-1] == len(graph.nodes):
            continue
        readers = [graph.nodes[i] for i in numbers]
        others = [node for node in readers if node.op is not POST_HOOK_CALL]
        if not others or any(node.op is POST_HOOK_CALL and node.args[1] for node in readers):
            continue
        last = others[-1]
        if last.op is ACCUMULATE_LEAF and last.args[1] is value:
            may_take.add(last)
        if last.op.effect == "python" and value.type is TENSOR and len(others) == len(readers):
            ends.setdefault(last, []).append(value)
    return may_take, ends
