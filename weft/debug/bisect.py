"""weft.debug.bisect: which pass, or which kernel, does not keep what was captured."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.codegen.program.compile import compile_program
from weft.debug.compare import both, name_of
from weft.debug.repeat import write_script
from weft.debug.shrink import Part, shrunk
from weft.debug.stages import CODE, Stage, changes
from weft.debug.state import State
from weft.debug.tolerance import Tolerance
from weft.debug.watched import ProgramRun, copied, program_runs
from weft.ir.differences import Difference
from weft.ir.evaluate import interpret
from weft.ir.graph import Graph
from weft.passes.pipeline import optimize
from weft.programs.nan_watch import operator_text
from weft.runtime.cache import Cache


@dataclass
class Culprit:
    """What `weft.debug.bisect` tells. Print it, or read its fields; as a truth value: whether something is wrong.

    stage: the pass of weft/passes/pipeline.py, or "code generation"; "" where every program does what was captured.
    kernel: the name of the kernel that is wrong. operator, line: of the first operator that comes out wrong.
    difference: how far. passes: how many passes changed the graph. script: what repeats it, and exits with 1 while it
    is wrong. graph: the smallest part of the program that shows it.
    """

    name: str
    stage: str = ""
    kernel: str = ""
    operator: str = ""
    line: str = ""
    difference: Difference | None = None
    passes: int = 0
    programs: int = 0
    script: Path | None = None
    graph: Graph | None = None

    def __bool__(self) -> bool:
        return bool(self.stage)

    def __str__(self) -> str:
        if not self.stage:
            return (
                f"{self.name}: all programs ({self.programs}) do what was captured, operator by operator; "
                f"weft.debug.compare({self.name}) looks at what lies between them"
            )
        is_code = self.stage == CODE
        what = f"{CODE}, in the kernel {self.kernel or '?'}," if is_code else f"the pass {self.stage}"
        first = f"  {self.line or self.name}: {self.operator}: {self.difference}"
        nodes = 0 if self.graph is None else len(self.graph.nodes)
        right = "all passes keep" if is_code else "the passes before it keep"
        return (
            f"{self.name}: {what} computes something else ({right} all values)\n{first}\n"
            f"  repeat it with: python {self.script} ({nodes} operator{'s' * (nodes != 1)})"
        )


def bisect(
    function: Callable[..., Any], *args: Any, rtol: float | None = None, atol: float | None = None,
    script: str | Path | None = None, **kwargs: Any,
) -> Culprit:
    """Narrow a miscompile to one pass of the compiler, or to code generation and one kernel, and write a script that
    repeats it.

    The function is called once as it is compiled (a plain function is compiled for this), and its state is put back.
    The graph of each program whose results are not what its operators give one by one is evaluated behind each pass.

    function, args, kwargs: a call that goes wrong. rtol, atol: as in `weft.debug.compare`. script: where to write it;
    default `repeat_<name>.py` in the current folder.
    """
    compiled, eager = both(function)
    name = name_of(function)
    state, tolerance = State(eager or compiled, (args, kwargs)), Tolerance(rtol, atol)
    with program_runs() as runs:
        compiled(*args, **kwargs)
    state.put_back()
    culprit = Culprit(name, programs=len(runs))
    wrong = next((run for run in runs if run.wrong_results(tolerance)), None)
    if wrong is not None:
        narrow(wrong, tolerance, culprit, script_path(name, "function") if script is None else Path(script))
    return culprit


def script_path(name: str, default: str, number: int = 0) -> Path:
    """Where a script that repeats a miscompile is written, in the current folder. default: for a name that no file can
    have; number: of several with one name."""
    return Path(f"repeat_{re.sub(r'[^0-9a-zA-Z_]+', '_', name).strip('_') or default}{number or ''}.py")


def narrow(run: ProgramRun, tolerance: Tolerance, culprit: Culprit, path: Path) -> None:
    """Find out which stage makes the results of a run wrong, tell `culprit`, and write a script that repeats it."""
    values, expected = run.reference
    before = run.graph
    steps = changes(run.graph)
    stage, graph = Stage(CODE, tolerance), steps[-1][2] if steps else run.graph
    culprit.passes = len(steps)
    for name, before, after in steps:
        try:
            actual = interpret(after, copied(run.inputs), run.symbols)
            is_wrong = bool(Stage(name, tolerance).differences(run.graph, actual, expected, values))
        except Exception:  # it cannot even be run
            is_wrong = True
        if is_wrong:
            stage, graph = Stage(name, tolerance), before
            break
    part = shrunk(Part(graph, run.inputs, run.symbols), stage)
    culprit.stage, culprit.graph = stage.name, part.graph
    culprit.difference = stage.fault(part.graph, part.inputs, part.symbols)
    if culprit.difference is None:  # only the program as it was made is wrong
        culprit.difference = next(iter(run.wrong_results(tolerance).values()))
    last = part.graph.nodes[-1] if part.graph.nodes else None
    if last is not None:
        culprit.operator, culprit.line = operator_text(part.graph, last), str(last.where or "")
    if stage.name == CODE:
        culprit.kernel = _kernel(part.graph)
    title = f"{stage.name} changes a value of `{culprit.name}` ({culprit.line or '?'}: {culprit.operator})"
    write_script(path, title, part, stage)
    culprit.script = path


def _kernel(graph: Graph) -> str:
    """The names of the kernels of a graph behind all passes."""
    program = compile_program(optimize(graph), cache=Cache(None))
    return ", ".join(dict.fromkeys(kernel.name for kernel in program.parts.kernels))
