"""A whole program under watch: NaN, wrong values of compiled programs, calls without a program, memory that is held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.debug.bisect import Culprit, narrow, script_path
from weft.debug.held import HeldMemory
from weft.debug.misses import Misses, noted
from weft.debug.tolerance import Tolerance
from weft.debug.watched import ProgramRun, copied
from weft.explanations.facts import Explanation
from weft.explanations.text import amount
from weft.explanations.watched import watched_explanations
from weft.ops.op import Op
from weft.ops.route import Route
from weft.profiler.recorder import Recorder
from weft.programs.nan_watch import checked_run, trouble
from weft.support import pytree
from weft.support.errors import NotFiniteError
from weft.support.locations import located, user_mark
from weft.support.observers import observers
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

_CHECKED, _NANS, _LINES = 2, 3, 3  # runs of a program that are compared; lines that are shown


class Watch(Recorder):
    """Looks at operators of eager mode and at programs for NaN, at programs for wrong values, and at what holds memory.

    nans: where the first were made. wrong: a run of each program that gives wrong values. checked: how many programs
    were compared with their operators one by one.
    """

    def __init__(self, tolerance: Tolerance) -> None:
        super().__init__()
        self.tolerance, self.held = tolerance, HeldMemory()
        self.nans: list[str] = []
        self.wrong: list[ProgramRun] = []
        self._runs: Counter[int] = Counter()
        self._executables: dict[int, Any] = {}  # that were looked at: so no other has the identity of one

    @property
    def checked(self) -> int:
        """How many programs were compared."""
        return len(self._executables)

    def start(self) -> None:
        """Begin to look."""
        super().start()
        self._before, observers.executables = observers.executables, self._checked_run

    def stop(self) -> None:
        """Look no more."""
        observers.executables = self._before
        super().stop()

    # ---- programs
    def begin(self, program: Any, frame: Any) -> None:
        """A program's run begins: nothing is timed."""

    def _checked_run(self, executable: Any, inputs: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
        key = id(executable)
        self._executables[key] = executable
        self._runs[key] += 1
        if self._runs[key] > _CHECKED:
            return self._finite(executable, inputs, symbols)
        run = ProgramRun(executable, copied(inputs), dict(symbols))
        results = self._finite(executable, inputs, symbols)
        run.results = copied(results)
        if run.wrong_results(self.tolerance) and all(one.executable is not executable for one in self.wrong):
            self.wrong.append(run)
        return results

    def _finite(self, executable: Any, inputs: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
        try:
            return checked_run(executable, inputs, symbols)
        except NotFiniteError as error:
            self.nans.insert(0, str(error))
            raise

    # ---- operators
    def _watched_route(self, route: Route, inplace: bool) -> Route:
        def watched(op: Op, args: tuple[Any, ...]) -> Any:
            if modes.capture is not None:
                return route(op, args)
            had_nan = any(map(_has_nan, pytree.flatten(args)[0]))  # before, for what is written in place
            result = route(op, args)
            mark = user_mark(2)
            for leaf in pytree.flatten(result)[0] if isinstance(result, (tuple, list)) else (result,):
                if isinstance(leaf, Tensor):
                    self.held.note(leaf._data, mark)
                    if not had_nan and len(self.nans) < _NANS and _has_nan(leaf):
                        self._say_nan(f"{located(mark)}: {op.name}", leaf)
            return result

        return watched

    def _say_nan(self, what: str, result: Tensor) -> None:
        bad = np.argwhere(np.isnan(result._data))
        at = f", first at {bad[0].tolist()}" if bad.shape[1] else ""
        line = f"{what} gives NaN in {len(bad)} of {result.numel()} elements{at}"
        if line not in self.nans:
            self.nans.append(line)

    def _watched_step(self, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        buffers = step.__self__.buffers  # type: ignore[attr-defined]  # gradients by the nodes that they wait for

        def watched(node: Any) -> Any:
            targets = [edge[0] for edge in node.edges if edge is not None]
            looks = modes.capture is None and len(self.nans) < _NANS
            had_nan = not looks or any(_has_nan(g) for n in (node, *targets) for g in buffers.get(n) or ())
            following = step(node)
            if not had_nan:
                for gradient in [g for target in targets for g in buffers.get(target) or () if _has_nan(g)][:1]:
                    where = node.where or located(node.mark)
                    self._say_nan(f"{where}: the backward of it ({node.name()})", gradient)
            return following

        return watched

    def _watched_call(self, call: Callable[..., Any], word: str) -> Callable[..., Any]:
        noted_call = super()._watched_call(call, word)

        def watched(function: Any, /, *args: Any, **kwargs: Any) -> Any:
            result = noted_call(function, *args, **kwargs)
            mark = user_mark(2)
            for leaf in pytree.flatten(result)[0]:
                if isinstance(leaf, Tensor):
                    self.held.note(getattr(leaf, "_data", None), mark)
            return result

        return watched


def _has_nan(value: Any) -> bool:
    return isinstance(value, Tensor) and trouble(getattr(value, "_data", None)) == "NaN"


def debug_run(run: Callable[[], Any], folder: Path, tolerance: Tolerance | None = None) -> tuple[Any, list[str]]:
    """What `run()` gives, and what was seen meanwhile, as lines. folder: where scripts that repeat a miscompile go."""
    watch = Watch(tolerance or Tolerance())
    result, explanations = watched_explanations(run, watch)
    return result, list(_lines(watch, explanations, folder))


def _lines(watch: Watch, explanations: list[Explanation], folder: Path) -> Iterator[str]:
    yield "NaN: " + ("none was made" if not watch.nans else watch.nans[0])
    yield from (f"  then {line}" for line in watch.nans[1:_NANS])
    if not watch.wrong:
        yield f"wrong values: none; {watch.checked} programs compared with their operators one by one"
    for i, run in enumerate(watch.wrong[:_LINES]):
        culprit = Culprit(run.graph.name, programs=watch.checked)
        narrow(run, watch.tolerance, culprit, folder / script_path(run.graph.name, "program", i))
        yield f"wrong values: {culprit}"
    missed = [Misses(e.name, noted(e.misses), []) for e in explanations if e.misses]
    yield from map(str, missed)
    if not missed:
        yield "compiled again: nothing"
    for explanation in explanations:
        for line in explanation.as_written[:_LINES]:
            yield f"{explanation.name} runs as it is written: {line}"
    sizes = watch.held.lines(_LINES)
    yield f"memory: {amount(watch.held.peak)} of tensors at most" + (", made by" if sizes else "")
    for line, size, count in sizes:
        yield f"  {line}: {amount(size)} in {count} tensor{'s' * (count != 1)}"
