"""weft.debug.compare: a function eagerly and as programs, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.compile.api import compile as compile_function
from weft.compile.driver import CompiledFunction
from weft.debug.eager_values import eager_values, first_other_value
from weft.debug.state import State, array_of
from weft.debug.tolerance import Tolerance
from weft.debug.watched import ProgramRun, program_runs
from weft.ir.differences import Difference
from weft.ir.graph import Node, Value
from weft.lazy.split.function import SplitFunction
from weft.programs.nan_watch import operator_text
from weft.support import pytree
from weft.support.knobs import knobs
from weft.tensor.tensor import Tensor

_SHOWN = 5
_CODE, _CAPTURE, _UNKNOWN = "code", "capture", ""


@dataclass
class Comparison:
    """What `weft.debug.compare` tells. Print it, or read its fields; as a truth value: whether all values are the same.

    differences: of results, gradients and state after the call, by name. operator, line, params: which operator made
    the first value that differs, where the user wrote it, and the parameters and arguments that it reads; first: how it
    differs. fault: "code" where the native program does not compute what was captured (`weft.debug.bisect` narrows
    that), "capture" where what was captured is not what the function does, "" where it is not known.
    compared: how many values were looked at. operators: how many operators the programs have.
    """

    name: str
    differences: dict[str, Difference] = field(default_factory=dict)
    operator: str = ""
    line: str = ""
    params: list[str] = field(default_factory=list)
    first: Difference | None = None
    fault: str = ""
    compared: int = 0
    operators: int = 0
    programs: int = 0

    def __bool__(self) -> bool:
        return not self.differences and self.first is None

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self:
            yield (
                f"{self.name}: eager and compiled agree: {self.compared} results, gradients and states; "
                f"{self.operators} operators in {self.programs} programs"
            )
            return
        if self.first is not None:
            reads = f", which reads {', '.join(self.params)}" if self.params else ""
            yield f"{self.line or self.name}: {self.operator}{reads}, is the first that differs: compiled"
            yield f"  {self.first}"
        else:
            yield f"{self.name}: eager and compiled differ"
        if self.differences:
            yield "after the call, compiled and eager:"
        for name, gap in list(self.differences.items())[:_SHOWN]:
            yield f"  {name}: {gap}"
        if len(self.differences) > _SHOWN:
            yield f"  ... and {len(self.differences) - _SHOWN} more"
        yield {
            _CODE: f"the graph is right, its native code is not: weft.debug.bisect({self.name}, ...) names the pass or "
            "the kernel",
            _CAPTURE: "native code does what was captured, which is not what the function does",
            _UNKNOWN: "each program does what its operators do one by one: what differs lies between them",
        }[self.fault]


def compare(
    function: Callable[..., Any], *, rtol: float | None = None, atol: float | None = None
) -> Callable[..., Comparison]:
    """`compare(step)(*args)` calls a function twice from the same state, compiled and eagerly, and names the first
    value that differs: by its operator, the user's line and the parameters that it reads, with the amounts.

    function: a function of weft.compile (whole or split), a Module, a scripted function, or a plain function, which is
    compiled for this. Steps of lazy tensors, and what else runs as programs by itself, run once: each program is
    compared with its operators one by one. Results, tensors that are written, gradients, optimizers' states and
    generators are looked at; the state (parameters, gradients, containers, attributes, generators) is then as the
    eager run leaves it.

    rtol, atol: elements may be off by `atol + rtol * |expected|`; by default by 1e-4 (float32; 1e-9 of float64, 5e-2 of
    16 bits) of the largest element of a value, or among its operands.
    """
    tolerance = Tolerance(rtol, atol)

    def compared(*args: Any, **kwargs: Any) -> Comparison:
        return _Compared(function, args, kwargs, tolerance).comparison()

    return compared


class _Compared:
    """The runs of one comparison."""

    def __init__(self, function: Any, args: Any, kwargs: Any, tolerance: Tolerance) -> None:
        self.compiled, self.eager = both(function)
        self.arguments, self.tolerance = (args, kwargs), tolerance
        self.name = name_of(function)
        self.state = State(self.eager or self.compiled, self.arguments)

    def comparison(self) -> Comparison:
        """Run, and compare."""
        if self._is_lazy():
            self.eager = None
        actual, runs = self.run_compiled()
        result = Comparison(self.name, programs=len(runs), operators=sum(len(list(r.graph.walk())) for r in runs))
        if self.eager is not None:
            self.state.put_back()
            expected = self._values(self._run_eager())
            self._compare(actual, expected, result)
        if self.eager is None or result.differences:
            self._find_first(runs, result)
        return result

    def run_compiled(self) -> tuple[dict[str, Any], list[ProgramRun]]:
        """What it leaves behind as programs, and their runs."""
        args, kwargs = self.arguments
        with program_runs() as runs:
            returned = self.compiled(*args, **kwargs)
            values = self._values(returned)  # (a lazy one runs only when it is read)
        return values, runs

    def _run_eager(self) -> Any:
        args, kwargs = self.arguments
        assert self.eager is not None
        with knobs(eager=True):
            return self.eager(*args, **kwargs)

    def _is_lazy(self) -> bool:
        tensors = [leaf for leaf in pytree.flatten(self.arguments)[0] if isinstance(leaf, Tensor)]
        return any(t.device.type == "lazy" for t in tensors)

    def _values(self, returned: Any) -> dict[str, Any]:
        leaves = pytree.flatten(returned)[0]
        names = ["result"] if len(leaves) == 1 else [f"result {i}" for i in range(len(leaves))]
        values = {n: array_of(v) if isinstance(v, Tensor) else v for n, v in zip(names, leaves, strict=True)}
        return {**values, **self.state.now()}

    def _compare(self, actual: dict[str, Any], expected: dict[str, Any], result: Comparison) -> None:
        for name in [*expected, *(n for n in actual if n not in expected)]:
            a, b = actual.get(name), expected.get(name)
            if (a is None) is not (b is None):
                result.differences[name] = Difference(text=f"is {'' if b is None else 'not '}there when compiled only")
            elif isinstance(b, (int, float, complex, np.ndarray)):
                result.compared += 1
                gap = self.tolerance.difference(a, b)
                if gap is not None:
                    result.differences[name] = gap

    def _find_first(self, runs: list[ProgramRun], result: Comparison) -> None:
        for run in runs:
            wrong = run.first_wrong_value(self.tolerance)
            if wrong is not None:
                self._name(run, *wrong, result)
                result.fault = _CODE
                return
        if self.eager is None:
            return
        self.state.put_back()
        with eager_values() as values:
            self._run_eager()
        for run in runs:
            other = first_other_value(run, values, self.tolerance)
            if other is not None:
                self._name(run, *other, result)
                result.fault = _CAPTURE
                return

    def _name(self, run: ProgramRun, value: Value, gap: Difference, result: Comparison) -> None:
        node = value.node
        assert node is not None
        result.first, result.operator = gap, operator_text(run.graph, node)
        result.line = "" if node.where is None else str(node.where)
        result.params = self._params(run, node)

    def _params(self, run: ProgramRun, node: Node) -> list[str]:
        """The inputs of a program that a node reads, by the user's names: those that hold the same memory now or held
        the same numbers."""
        names = []
        for value in node.needs():
            if value in run.graph.params:
                names.append(self._param_name(run.inputs[run.graph.params.index(value)], str(value.name)))
        return names

    def _param_name(self, data: Any, name: str) -> str:
        if isinstance(data, np.ndarray) and data.size > 1:
            for label, before in self.state.before.items():
                if before is not None and before.shape == data.shape and np.array_equal(before, data):
                    return label
        return name


def name_of(function: Any) -> str:
    """What texts call a function."""
    return str(getattr(function, "name", None) or getattr(function, "__name__", type(function).__name__))


def both(function: Any) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """A function as programs, and as Python runs it; None for what runs as programs by itself."""
    if isinstance(function, (CompiledFunction, SplitFunction)):
        return function, function.function
    if hasattr(function, "__weft_program__") or hasattr(getattr(function, "forward", None), "__weft_program__"):
        return function, getattr(function, "__wrapped__", None)
    inner = getattr(function, "_compiled", None)  # a compiled module
    if isinstance(inner, CompiledFunction):
        return function, inner.function
    return compile_function(function), function
