"""An explanation as lines: the short one that is printed, and all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from weft.explanations.facts import Explanation, KernelTimes, ProgramFacts
from weft.programs.measured import Measured

PROGRAMS, KERNELS, PARAMS, REASONS = 4, 8, 3, 3  # that are shown of each, at most
_KINDS = {
    "compiled": "compiled function", "split": "function that runs in parts", "lazy": "steps of lazy tensors",
    "backward": "captured backward calls", "script": "scripted or traced function",
}
_CUT = ("split", "lazy")
_REMEDY = (
    "A value is asked for there, and a program ends. weft.where, weft.cond and weft.while_loop keep it whole; "
    "what is only shown can be read after the call."
)


def lines_of(explanation: Explanation) -> Iterator[str]:
    """What a person reads first."""
    yield from before_kernels(explanation)
    yield from _kernels(explanation)
    yield from after_kernels(explanation)


def before_kernels(explanation: Explanation) -> Iterator[str]:
    """What ran, and how long its parts took."""
    yield from _head(explanation)
    if explanation.calls:
        python = duration(max(0.0, explanation.seconds_call - explanation.seconds_programs))
        yield (
            f"  called {explanation.calls} time{'s' * (explanation.calls != 1)}: {duration(explanation.seconds_call)} "
            f"each (the median), of that {python} in Python around programs"
        )
    measured = [(p, p.measured) for p in explanation.programs]
    slowest = sorted(measured, key=lambda pair: 0.0 if isinstance(pair[1], str) else -pair[1].seconds)[:PROGRAMS]
    for program, times in measured:
        if any(program is one for one, _ in slowest):
            yield from _call(program, times, is_only=len(measured) == 1)
    if len(measured) > PROGRAMS:
        yield f"  ({len(measured) - PROGRAMS} more programs take less)"
    if explanation.seconds_checks is not None:
        yield f"  Python before each call: {duration(explanation.seconds_checks)} to find the program that fits"


def after_kernels(explanation: Explanation) -> Iterator[str]:
    """What is not native, breaks, loops, and the last miss."""
    yield from _outside(explanation)
    yield from _some("breaks", explanation.breaks)
    if explanation.breaks and explanation.kind in _CUT:
        yield f"    {_REMEDY}"
    yield from _some("loops of Python", [loop for p in explanation.programs for loop in p.loops])
    yield from _misses(explanation)
    if explanation.programs:
        yield (
            f"  more: .details(), .programs ({len(explanation.programs)}), .guards ({len(explanation.guards)}), "
            f".state ({len(explanation.state)})"
        )


def _head(explanation: Explanation) -> Iterator[str]:
    where = f", {explanation.where}" if explanation.where else ""
    yield f"{explanation.name}: {_KINDS[explanation.kind]}{where}"
    if not explanation.programs:
        yield "  no program, runs as it is written"
        yield from _some("why", explanation.as_written)
        return
    if explanation.seconds:
        capture = explanation.seconds - explanation.seconds_compile
        passes = explanation.seconds_passes
        code = explanation.seconds_compile - passes
        rest = (
            f"passes {duration(passes)}, code {duration(code)}" if code > 0
            else f"code {duration(explanation.seconds_compile)} (from the disk)"
        )
        yield f"  first call: {duration(explanation.seconds)} to compile it: capture {duration(capture)}, {rest}"
    yield from _some("other calls run as they are written", explanation.as_written)


def _call(program: ProgramFacts, times: Measured | str, is_only: bool) -> Iterator[str]:
    title = "each call" if is_only else program.title
    count = f"{len(program.kernels)} kernel{'s' * (len(program.kernels) != 1)}"
    arena = "" if not program.arena_bytes else f", {amount(program.arena_bytes)} of memory in between"
    if isinstance(times, str):
        yield f"  {title}: {count}{arena}; not timed: {times}"
        return
    host = f", {duration(times.host)} in NumPy" if program.foreign else ""
    between = times.seconds - times.native - times.host
    yield (
        f"  {title}: {duration(times.seconds)}: {duration(times.native)} in native code ({count}){host}, "
        f"{duration(between)} in Python between{arena}"
    )


def _kernels(explanation: Explanation) -> Iterator[str]:
    kernels = explanation.slowest_kernels()
    total = sum(k.seconds for k, _ in kernels)
    if not total:
        return
    shown = [(k, p) for k, p in kernels[:KERNELS] if k.seconds > total / 200]
    rows = [_kernel_row(k, p, total, len(explanation.programs) > 1) for k, p in shown]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    yield "  slowest kernels:"
    for share, seconds, lines, name, rest in rows:
        yield (
            f"    {share:>{widths[0]}}  {seconds:>{widths[1]}}  {lines:{widths[2]}}  {name:{widths[3]}}  {rest}"
        ).rstrip()
    left = len(kernels) - len(shown)
    if left:
        yield f"    ({left} more take {100 * (1 - sum(k.seconds for k, _ in shown) / total):.0f} %)"


def _kernel_row(kernel: KernelTimes, program: ProgramFacts, total: float, is_named: bool) -> tuple[str, ...]:
    operators = ", ".join(short_operators(kernel.operators))
    params = ", ".join(kernel.params[:PARAMS]) + (", ..." if len(kernel.params) > PARAMS else "")
    times = f" x{kernel.launches}" if kernel.launches > 1 else ""
    name = f"{program.title}: {kernel.name}" if is_named else kernel.name
    return (
        f"{100 * kernel.seconds / total:.0f} %", duration(kernel.seconds), kernel.lines or "-",
        name + times, f"{operators}{' | ' + params if params else ''}",
    )


def short_operators(operators: tuple[str, ...], limit: int = 4) -> list[str]:
    """`mul, add, ...`: without namespaces and overloads, each once."""
    names = list(dict.fromkeys(op.split("::")[-1].split(".")[0].lstrip("_") for op in operators))
    return names if len(names) <= limit else [*names[:limit], "..."]


def _outside(explanation: Explanation) -> Iterator[str]:
    lines = list(dict.fromkeys(f for p in explanation.programs for f in p.foreign_lines))
    yield from _some("outside of native code (no native code for these arguments: they run in NumPy)", lines)


def _misses(explanation: Explanation) -> Iterator[str]:
    misses = [miss for miss in explanation.misses if miss not in explanation.as_written]
    if misses:
        yield f"  last miss of {len(misses)}: {misses[-1]}"
        remedy = getattr(misses[-1], "remedy", "")
        if remedy:
            yield f"    what to do: {remedy}"


def _some(title: str, entries: list[str]) -> Iterator[str]:
    if entries:
        yield f"  {title}: {len(entries)}"
        yield from (f"    {line}" for line in entries[:REASONS])
        if len(entries) > REASONS:
            yield f"    ... and {len(entries) - REASONS} more"


def duration(seconds: float) -> str:
    """`1.2 s`, `12 ms`, `3.4 us`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.{0 if seconds >= 100 * size else 1}f} {unit}"
    return f"{max(seconds, 0) * 1e6:.1f} us"


def amount(count: float) -> str:
    """`512 B`, `1.5 KiB`, ..."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


# ---- everything
def details_lines(explanation: Explanation) -> Iterator[str]:
    """All facts."""
    if not explanation.programs:
        yield from lines_of(explanation)
        return
    yield (
        f"{explanation.name}: captured and compiled in {explanation.seconds * 1e3:.0f} ms, "
        f"of that {explanation.seconds_compile * 1e3:.0f} ms in the compiler"
    )
    for program in explanation.programs:
        yield ""
        yield from _program_lines(program)
    yield ""
    yield from _section("state", explanation.state)
    yield from _section("guards on sizes", explanation.size_guards)
    yield from _section("guards on Python", explanation.python_guards)
    yield from _section("guards on numbers", explanation.number_guards)
    yield from _section("numbers read at each call", explanation.numbers)
    yield from _section("guards that missed so far", explanation.misses)
    yield from _section("breaks", explanation.breaks)
    yield from _section("other calls that run as they are written", explanation.as_written)


def _section(title: str, entries: list[str]) -> Iterator[str]:
    if entries:
        yield f"{title}: {len(entries)}"
        yield from (f"  {e}" for e in entries)


def _program_lines(program: ProgramFacts) -> Iterator[str]:
    stages = ", ".join(f"{count} {name}" for name, count in program.stages)
    yield f"{program.title}: operators {stages}; {program.opaque_calls} of the captured are backward calls"
    arena = "" if program.arena_bytes is None else f", arena of {program.arena_bytes / 1024:.1f} KiB"
    yield (
        f"  {program.backend}: {len(program.kernels)} kernels, {program.native_segments} native segments, "
        f"{program.foreign_segments} foreign{arena}"
    )
    if program.passes:
        yield (
            "  passes that changed something: "
            + ", ".join(f"{name} ({seconds * 1e3:.1f} ms)" for name, seconds, _ in program.passes)
        )
    for loop in program.loops:
        yield f"  loop: {loop}"
    for step, times in Counter(program.kernels).items():
        name, _, fused = step[len("kernel "):].partition(": ")
        yield f"  {name}{f' x{times}' if times > 1 else ''}: {fused}"
    for step, times in Counter(program.foreign).items():
        name = step.removeprefix("numpy ")
        yield (
            f"  outside native code{f' x{times}' if times > 1 else ''}: {name} runs in NumPy: "
            "it has no native lowering for these arguments"
        )
