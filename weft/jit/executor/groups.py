"""A group as a native program, captured by running its body under weft.compile; the interpreter runs what no program
serves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from weft.autograd.saved import default_hooks
from weft.compile.driver import CompiledFunction
from weft.compile.program.call_leaves import CallLeaves
from weft.ir.graph import Node, Value
from weft.jit.executor.grouping import body_of, has_loop, work
from weft.jit.interpreter.hot import Execution
from weft.jit.program import Parameter, Program
from weft.programs.store import Miss
from weft.runtime.storage import root_of
from weft.support import limits, pytree
from weft.support.counters import counters
from weft.tensor.dense import is_dense
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import NONE, TupleType, tuple_of

LEAST_WORK = 6  # operators on tensors that are worth a program of their own
_MOST_FAILURES = 2


def _body_of(program: Program, code_of: Callable[[Program], Any]) -> Callable[..., Any]:
    """A group as a function: no method of the group's, whose attributes would be taken for settings."""

    def body(*args: Any) -> Any:
        return code_of(program).from_python(args)

    return body


class NativeGroup:
    """The native programs of one group, each for a pattern of sizes and layouts.

    A call whose sizes do not fit a program (by broadcasting, say) is interpreted, and counted in
    `counters.fusion_fallbacks`; if such calls come again, they get a program too.
    """

    def __init__(self, node: Node, name: str, code_of: Any, is_written_behind: bool = False) -> None:
        graph, self.inputs = body_of(node, name)
        self.is_written_behind = is_written_behind
        self.nodes = node.blocks[0].nodes
        self.is_worthwhile = work(self.nodes) >= LEAST_WORK or has_loop(self.nodes)
        self.program = Program(
            name, tuple([Parameter(f"a{i}", v.type) for i, v in enumerate(self.inputs)]), _returns(graph.results), graph
        )
        self.compiled = CompiledFunction(_body_of(self.program, code_of), name)
        self.calls = self.failures = self.fallbacks = 0
        self._many = len(node.outputs) != 1
        self._lock = threading.RLock()

    def run(self, args: Sequence[Any]) -> tuple[Any, ...] | None:
        """The group's results, natively; None where the interpreter is to run it."""
        self.calls += 1
        if (
            not self.is_worthwhile or self.failures >= _MOST_FAILURES or self.calls <= Execution.calls
            or not Execution.optimized or modes.capture is not None or modes.special is not None
        ):
            return None
        tree: Any = (tuple(args), {})
        flat, spec = pytree.flatten(tree)
        leaves = CallLeaves(flat, tree, None)
        if any(v is None for v in leaves) or (modes.grad and self._needs_steps(leaves)):
            return None
        try:
            results = self._fitting(leaves, spec)
        finally:
            leaves.let_go()
        if results is None:
            return None
        return tuple(results) if self._many else (results,)

    def _needs_steps(self, leaves: list[Any]) -> bool:
        """Whether gradients are those of single operators. Hooks on what is saved count on the same tensors each time
        (a checkpoint's second run is another call), and programs come with the calls."""
        if default_hooks.stack:
            return True
        if self.is_written_behind and any([isinstance(v, Tensor) and v.requires_grad for v in leaves]):
            return True
        return _share_memory_with_gradients(leaves)

    def _fitting(self, leaves: CallLeaves, spec: pytree.TreeSpec) -> Any:
        programs = self.compiled.entries
        match = programs.find(leaves, spec)
        if match is None:
            if len(programs):
                counters.fusion_fallbacks += 1
                self.fallbacks += 1
                if self.fallbacks % 2 or len(programs) >= limits.PROGRAMS_OF_A_GROUP:
                    return None
            with self._lock:
                match = programs.find(leaves, spec) or self._captured(leaves, spec)
        if match is None:
            return None
        entry, call = match
        try:
            return entry.run(leaves, call)
        except (ArithmeticError, LookupError, ValueError, TypeError, RuntimeError):
            return None  # nothing has happened: the interpreter raises it with the lines of the program

    def _captured(self, leaves: list[Any], spec: pytree.TreeSpec) -> tuple[Any, Any] | None:
        """A new program, and what it makes of the arguments; None where there can be none."""
        self.compiled.lift_arguments([i for i, leaf in enumerate(leaves) if type(leaf) in (int, float)])
        try:
            entry = self.compiled.capture(leaves, spec)
            call = entry.match(leaves, spec)
        except Exception:  # whatever it is: the interpreter finds it too, or it is no fault of the program
            self.failures += 1
            return None
        if type(call) is Miss:
            self.failures += 1
            return None
        return self.compiled.entries.add(entry), call


def _share_memory_with_gradients(leaves: Sequence[Any]) -> bool:
    """Whether one of several tensors over the same memory wants a gradient: a program's second gradient is that of the
    memory as a whole.
    """
    tensors = {id(v): v for v in leaves if isinstance(v, Tensor) and is_dense(v)}.values()
    if len(tensors) < 2 or not any([t.requires_grad for t in tensors]):
        return False
    return len({id(root_of(t._data)) for t in tensors}) < len(tensors)


def _returns(results: Sequence[Any]) -> Any:
    kinds = [r.type for r in results if isinstance(r, Value)]
    if not kinds:
        return NONE
    tuple_type = tuple_of(*kinds)
    assert isinstance(tuple_type, TupleType)
    return kinds[0] if len(kinds) == 1 else tuple_type
