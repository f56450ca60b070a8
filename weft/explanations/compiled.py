"""What becomes of a function of weft.compile, or of one that could be such, on given arguments."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft.compile.driver import CompiledFunction
from weft.compile.program.entry import Entry
from weft.explanations.facts import Explanation, ProgramFacts, program_facts
from weft.explanations.names import input_names
from weft.programs.program_io import ArgumentSource, StateSource
from weft.programs.store import Miss
from weft.support import pytree, registry
from weft.support.errors import ArgumentError
from weft.support.locations import Location, is_internal

_TIMED = 20  # times that checks are made to measure them


def explain_compiled(function: Any, *args: Any, **kwargs: Any) -> Explanation:
    """What becomes of a function (compiled or not) or module on these arguments. Captures it if no program fits;
    nothing that it writes is written.

    Without the arguments that the function needs: what became of it the last time that it was captured.
    ArgumentError if it never was.
    """
    owner = _owner(function)
    lacking = _lacks_arguments(owner.function, args, kwargs)
    if lacking and not owner.entries and not owner.stepwise:
        raise ArgumentError(
            f"explain: {owner.name} takes arguments and was not called yet; name some, "
            f"as in weft.explain({owner.name}, x)"
        )
    if lacking:
        return _of_entry(owner, owner.entries[0], None, None) if owner.entries else _of_none(owner)
    try:
        entry, call = owner.entry_for(args, kwargs)
    except Exception as error:
        why = owner.why_as_written(error)
        if why is None:
            raise
        return _of_none(owner, why)
    finally:
        owner.forget_users()
    return _of_entry(owner, entry, None if isinstance(call, Miss) else call, (args, kwargs))


def _of_none(owner: CompiledFunction, *reasons: str) -> Explanation:
    """Of calls that run as they are written."""
    whys = list(dict.fromkeys([*reasons, *[s.why for s in owner.stepwise]]))
    return Explanation(
        str(owner.name), misses=list(owner.misses), as_written=whys, where=_defined(owner.function)
    )


def _of_entry(owner: CompiledFunction, entry: Entry, symbols: dict[str, int] | None, call: Any) -> Explanation:
    names = input_names(owner.function, entry)
    inputs = None if call is None or symbols is None else _inputs(entry, call)
    programs = [
        program_facts(title, graph, executable, symbols, names, inputs) for title, graph, executable in entry.programs
    ]
    programs[0].loops += entry.capture.loops_of_one_length
    if entry.joint is not None:
        programs[0].title = "forward"
        halves = entry.joint.halves
        # known once the forward has run
        sizes = None if halves.sizes else symbols
        programs.append(program_facts("backward", halves.backward, entry.joint.backward, sizes))
    explanation = _explanation(owner, entry, programs)
    explanation.breaks = [f"{where}: {what}" for where, what in _python_steps(entry)]
    if call is not None and symbols is not None:
        explanation.seconds_checks = _seconds_of_checks(owner, call)
    return explanation


def _inputs(entry: Entry, call: Any) -> list[Any] | None:
    """What a call would give to the program, as far as nothing changes by asking; the rest is None."""
    leaves = pytree.flatten(call)[0]
    inputs: list[Any] = []
    for source in entry.sources:
        value: Any = None
        if isinstance(source, ArgumentSource) and source.permutation is None and source.leaf < len(leaves):
            value = getattr(leaves[source.leaf], "_data", None)
        elif isinstance(source, StateSource) and source.slot.leaf is None:
            value = source.slot.array
        inputs.append(value if isinstance(value, np.ndarray) else None)
    return inputs


def _seconds_of_checks(owner: CompiledFunction, call: Any) -> float | None:
    """What it takes Python to find the program of a call; None where none fits."""
    leaves, spec = pytree.flatten(call)
    best = None
    for _ in range(_TIMED):
        start = time.perf_counter()
        if owner.entries.find(leaves, spec) is None:
            return None
        seconds = time.perf_counter() - start
        best = seconds if best is None else min(best, seconds)
    return best


def _python_steps(entry: Entry) -> Iterator[tuple[str, str]]:
    """Where Python is called between two programs of one call."""
    for node in entry.graph.walk():
        if node.op.effect in ("python", "io"):
            yield str(node.where or entry.graph.name), f"Python is called ({node.op.name}); a program ends before it"


def _lacks_arguments(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if args or kwargs:
        return False
    called = function.forward if registry.is_module(function) else function  # a module itself takes whatever comes
    try:
        inspect.signature(called).bind()
    except TypeError:
        return True
    except ValueError:  # a function that has no signature to look at
        pass
    return False


def _owner(function: Any) -> CompiledFunction:
    if isinstance(function, CompiledFunction):
        return function
    inner = getattr(function, "_compiled", None)  # a compiled module
    if isinstance(inner, CompiledFunction):
        return inner
    if registry.is_module(function):
        return CompiledFunction(function.forward, type(function).__name__)
    return CompiledFunction(function)


def _explanation(owner: CompiledFunction, entry: Entry, programs: list[ProgramFacts]) -> Explanation:
    capture = entry.capture
    return Explanation(
        str(owner.name), entry.seconds_total, entry.seconds_compile, programs,
        [f"{_at(g.where)}{g}" for g in capture.env.guards.values()],
        [f"{_at(g.where)}{g.text}" for g in entry.guards.python.guards],
        [
            f"{_at(g.where)}the answer to a question about a number is {g.answer}"
            for g in capture.python_state.number_guards
        ],
        [n.name for n in capture.python_state.numbers],
        list(_state(entry, programs[0].param_names)),
        list(owner.misses), [s.why for s in owner.stepwise], where=_defined(owner.function),
        graphs=[graph for _, graph, _ in entry.programs],
    )


def _at(where: Any) -> str:
    return f"{where}: " if where is not None else ""


def _defined(function: Callable[..., Any]) -> str:
    """The line of a function's definition; "" where it is not the user's."""
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    if code is None or is_internal(code.co_filename):
        return ""
    return str(Location(code.co_filename, code.co_firstlineno))


def _state(entry: Entry, names: list[str]) -> Iterator[str]:
    written = {param for _, param in entry.graph.writes}
    for slot in entry.capture.outside.states.values():
        value = entry.graph.params[slot.param]
        name = names[slot.param] if slot.param < len(names) else value.name
        yield f"{name}: {value.type}{', updated in place' if slot.param in written else ''}"
