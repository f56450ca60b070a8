"""Programs that travel with a pickle of a compiled function: where the same graph is captured again, in another process
or on another machine of the same kind, the code is there.

What a program reads and guards of Python's state is the other process's own, so the function is recorded there; passes
and LLVM do not run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.programs.program_cache import carry_guards
from weft.runtime.cache import user_cache


@dataclass(frozen=True)
class CarriedProgram:
    """A program by the text of its graph: the guards that its passes added, as text, and its code."""

    graph: str
    guards: str
    code: bytes


@dataclass(frozen=True)
class Carried:
    """The programs of a compiled function. compiler, machine: whoever has another of either compiles anew."""

    compiler: str
    machine: str
    programs: tuple[CarriedProgram, ...]


def to_carry(programs: Iterable[CarriedProgram | None]) -> Carried | None:
    """Programs as they travel; None where there are none."""
    from weft.codegen.program_key import compiler_digest  # deferred: brings in llvmlite

    carried = tuple([p for p in programs if p is not None])
    return Carried(compiler_digest(), _machine(), carried) if carried else None


def take(carried: Carried | None) -> None:
    """Have the programs at hand, if this process's compiler would make the same ones."""
    if carried is None:
        return
    from weft.codegen.program.compile import carry_code  # deferred: brings in llvmlite
    from weft.codegen.program_key import compiler_digest

    if carried.compiler != compiler_digest() or carried.machine != _machine():
        return
    cache = user_cache()
    for graph in dict.fromkeys(p.graph for p in carried.programs):
        same = [p for p in carried.programs if p.graph == graph]
        for key, program in zip(carry_guards(cache, graph, [p.guards for p in same]), same, strict=True):
            carry_code(key, program.code, cache)


def _machine() -> str:
    """What decides besides the graph: processor and features, the releases of llvmlite and LLVM."""
    from weft.codegen.compiler import object_key
    from weft.codegen.target import host_target

    return object_key("", host_target())
