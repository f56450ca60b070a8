"""The plans of a program, one for each kind of arguments: its graph with groups, and what runs it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from weft.ir.graph import Graph as CoreGraph
from weft.ir.graph import Node
from weft.jit.executor.grouping import (
    COMPILED,
    DIFFERENTIABLE,
    FUSED,
    body_of,
    fused_within,
    grouped,
    is_tensor_work,
    written_behind,
)
from weft.jit.executor.groups import NativeGroup
from weft.jit.executor.spec import Spec, has_tensors, spec_of, wants_gradients
from weft.jit.interpreter.code import Code, code_of
from weft.jit.interpreter.hot import Execution
from weft.jit.interpreter.steps import Registers, Step
from weft.jit.program import Program
from weft.jit.torchscript.graph import Graph
from weft.jit.torchscript.inlining import inlined
from weft.support.counters import counters
from weft.support.knobs import knobs
from weft.tensor.modes import modes
from weft.types.tensor_type import ClassType

_LOCK = threading.RLock()


class PlanCode(Code):
    """The steps of a plan: those of the interpreter, with groups that become native programs."""

    def __init__(self, program: Program) -> None:
        assert program.graph is not None
        self.written_behind = written_behind(program.graph)
        self.groups: list[NativeGroup] = []
        super().__init__(program)

    def step_of(self, node: Node) -> Step:
        step = super().step_of(node)
        if node.op not in (DIFFERENTIABLE, COMPILED):
            return step
        name = f"{self.program.name.rpartition('.')[2]}_{len(self.template)}"
        group = NativeGroup(node, name, code_of, node in self.written_behind)
        self.groups.append(group)
        places = [self.place(v) for v in group.inputs]
        outputs = [self.place(v) for v in node.outputs]

        def run(registers: Registers) -> None:
            results = group.run([registers[p] for p in places])
            if results is None:
                step(registers)
                return
            for out, value in zip(outputs, results, strict=True):
                registers[out] = value

        return run


class Plan:
    """How a program runs for one kind of arguments."""

    def __init__(self, program: Program, spec: Spec) -> None:
        self.spec = spec
        self._program, self._is_grouped = program, has_tensors(spec) or bool(program.captured)
        if self._is_grouped:
            assert program.graph is not None
            graph, whole = inlined(program)
            has_state = bool(program.captured) or any(isinstance(p.type, ClassType) for p in program.parameters)
            may_want = wants_gradients(spec) or (bool(spec[0]) and has_state)
            whole.graph = grouped(graph, DIFFERENTIABLE if may_want else COMPILED)
            self._whole = whole
            self.code: Code = PlanCode(whole)
        else:
            self._whole, self.code = program, code_of(program)

    @cached_property
    def _shown(self) -> CoreGraph:
        graph = self._whole.graph
        assert graph is not None
        return fused_within(graph) if self._is_grouped else graph

    @property
    def graph(self) -> Graph:
        """The graph as it runs, bodies of groups printed in place."""
        return Graph(self._shown, self._whole, runs=True)

    @property
    def autodiff_subgraphs(self) -> list[Graph]:
        """The bodies of the regions that are differentiated as a whole."""
        return self._bodies(DIFFERENTIABLE)

    @property
    def native_groups(self) -> list[NativeGroup]:
        """The groups with their programs."""
        return self.code.groups if isinstance(self.code, PlanCode) else []

    @property
    def fusion_groups(self) -> list[Graph]:
        """The bodies of the groups that become one kernel each."""
        return self._bodies(FUSED)

    def _bodies(self, op: Any) -> list[Graph]:
        nodes = [n for n in self._shown.walk() if n.op is op]
        return [Graph(body_of(n, f"{self._shown.name}_{i}")[0], self._whole) for i, n in enumerate(nodes)]

    def __repr__(self) -> str:
        return f"<plan of {self._program.name} for {self.spec}>"


def may_have_plans(program: Program) -> bool:
    """Whether plans gain anything: there are operators on tensors."""
    if program.has_plans is None:
        graph = program.graph
        program.has_plans = graph is not None and any(
            is_tensor_work(n) or n.op.host for n in graph.walk()
        )
    return bool(program.has_plans)


def run_program(program: Program, args: Sequence[Any]) -> Any:
    """Run a program by the plan for these arguments, made when such arguments come for the first time."""
    if not Execution.optimized or knobs.eager or modes.capture is not None or modes.special is not None:
        return code_of(program).from_python(args)
    spec = spec_of(args) if may_have_plans(program) else None
    if spec is None:
        return code_of(program)(args)
    plan = program.plans.get(spec)
    if plan is None:
        plan = _made(program, spec)
    program.last_plan = plan
    return plan.code(args)


def _made(program: Program, spec: Spec) -> Plan:
    with _LOCK:
        plan = program.plans.get(spec)
        if plan is None:
            plan = program.plans[spec] = Plan(program, spec)
            counters.jit_plans += 1
        return plan


def last_executed_plan(fn: Any) -> Plan | None:
    """The plan by which a scripted function or method ran last; None if it has not run, or was interpreted."""
    program = getattr(fn, "__weft_program__", None)
    if program is None:
        program = getattr(getattr(fn, "forward", None), "__weft_program__", None)
    if program is None:
        raise TypeError(f"last_executed_plan: a scripted function or Module is expected, not {type(fn).__name__}")
    return program.last_plan  # type: ignore[no-any-return]
