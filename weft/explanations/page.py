"""An explanation as one page of HTML, which a browser shows without a network: the source with the time of each line,
kernels with their loops and machine code, a timeline of threads, memory over time.

What the page shows is gathered as plain data and put into page.html, with page.css and page.js, as JSON.
"""

from __future__ import annotations

import json
import linecache
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from weft.codegen.compiler import CodegenError
from weft.codegen.program_parts import KernelFacts, ProgramParts, assembly_of
from weft.explanations.facts import Explanation, ProgramFacts
from weft.explanations.text import after_kernels, before_kernels
from weft.interop.streams import Target, write
from weft.programs.executable import Compiled
from weft.programs.measured import Measured
from weft.support.locations import Location
from weft.types import dims as dm

MACHINE_CODE = 24  # kernels of a page whose machine code is shown, the slowest
SPANS = 20_000  # boxes of a timeline
BUFFERS = 4_000  # of a program, the largest
SOURCE = 20_000  # lines of a file

Json = Any


def page_of(explanations: Sequence[Explanation], title: str = "") -> str:
    """The page as text."""
    title = title or ", ".join(dict.fromkeys(e.name for e in explanations))
    content = json.dumps(page_content(explanations), separators=(",", ":"), allow_nan=False)
    parts = {
        "TITLE": escape(title), "STYLE": _part("page.css"), "SCRIPT": _part("page.js"),
        "CONTENT": content.replace("<", "\\u003c"),  # no text within ends the element that holds it
    }  # fmt: skip
    return re.sub("%([A-Z]+)%", lambda m: parts[m[1]], _part("page.html"))


def write_page(explanations: Sequence[Explanation], path: Target, title: str = "") -> None:
    """Write the page to a path (whole or not at all) or a binary file. Raises OSError."""
    write(path, page_of(explanations, title).encode())


@cache
def _part(name: str) -> str:
    return resources.files("weft.explanations").joinpath(name).read_text("utf-8")


# ---- what it shows
def page_content(explanations: Sequence[Explanation]) -> dict[str, Json]:
    """What the page of some explanations shows; programs are timed, and the slowest kernels compiled once more."""
    files: dict[str, str] = {}
    return {
        "explanations": [_explanation(explanation, files) for explanation in explanations],
        "files": {name: _source(path) for name, path in files.items()},
    }


def _explanation(explanation: Explanation, files: dict[str, str]) -> dict[str, Json]:
    slowest: dict[int, list[str]] = {id(p): [] for p in explanation.programs}
    for kernel, program in explanation.slowest_kernels()[:MACHINE_CODE]:
        slowest[id(program)].append(kernel.name)
    return {
        "name": explanation.name,
        "lines": [*before_kernels(explanation), *after_kernels(explanation)],
        "programs": [_program(p, slowest[id(p)], files) for p in explanation.programs],
        "lists": {
            title: list(map(str, entries))
            for title, entries in (
                ("state", explanation.state), ("guards on sizes", explanation.size_guards),
                ("guards on Python", explanation.python_guards), ("guards on numbers", explanation.number_guards),
                ("numbers read at each call", explanation.numbers),
                ("calls that were captured anew", explanation.misses),
                ("breaks", explanation.breaks), ("calls that run as they are written", explanation.as_written),
            ) if entries
        },
    }  # fmt: skip


def _program(program: ProgramFacts, slowest: Sequence[str], files: dict[str, str]) -> dict[str, Json]:
    shown: dict[str, Json] = {
        "title": program.title, "stages": program.stages, "loops": program.loops, "foreign": program.foreign_lines,
        "passes": program.passes, "arena": program.arena_bytes, "kernels": [], "spans": [], "buffers": [],
    }  # fmt: skip
    times = program.measured
    if isinstance(times, str):
        return {**shown, "not timed": times}
    parts: ProgramParts = program.executable.program.parts
    return {
        **shown,
        "seconds": times.seconds, "native": times.native, "host": times.host,
        "kernels": _kernels(program, parts, times, slowest, files),
        "spans": [list(span) for span in times.timeline[:SPANS]], "more spans": max(0, len(times.timeline) - SPANS),
        "buffers": _buffers(parts, times, files),
        "operators": _operators(program, files),
    }  # fmt: skip


def _kernels(
    program: ProgramFacts, parts: ProgramParts, times: Measured, slowest: Sequence[str], files: dict[str, str]
) -> list[Json]:
    code = _machine_code(program, slowest)
    rows = []
    texts: dict[str, int] = {}  # equal kernels show one text
    for number, facts in enumerate(parts.kernels):
        seconds, launches = times.kernels.get(number, (0.0, 0))
        size, work = times.sizes.get(number, (0, 0))
        is_first = texts.setdefault(facts.name, number) == number
        rows.append({
            "name": facts.name, "seconds": seconds, "launches": launches, "bytes": size, "operations": work,
            "lines": _places(facts.lines, files), "operators": list(facts.operators),
            "params": _params(program, facts), "same": texts[facts.name],
            "nest": facts.nest if is_first else "", "code": code.get(facts.name, "") if is_first else "",
        })  # fmt: skip
    return rows


def _params(program: ProgramFacts, facts: KernelFacts) -> list[str]:
    return [program.param_names[i] for i in facts.params if i < len(program.param_names)]


def _machine_code(program: ProgramFacts, names: Sequence[str]) -> Mapping[str, str]:
    if not isinstance(program.executable, Compiled) or not names:
        return {}
    try:
        return assembly_of(program.executable.optimized(), dict.fromkeys(names))
    except CodegenError:  # the page has the rest
        return {}


def _buffers(parts: ProgramParts, times: Measured, files: dict[str, str]) -> list[Json]:
    """[bytes, operator, places, first kernel, last kernel] of each."""
    sized = [
        (int(dm.evaluate(b.bytes, times.symbols)), b)
        for b in parts.buffers if dm.symbols(b.bytes) <= times.symbols.keys()
    ]
    sized.sort(key=lambda pair: -pair[0])
    return [[size, b.operator, _places(b.lines, files), b.first, b.last] for size, b in sized[:BUFFERS] if size > 0]


def _operators(program: ProgramFacts, files: dict[str, str]) -> dict[str, Json]:
    """By place (`model.py:12`): how often the optimized graph has each operator of that line."""
    if not isinstance(program.executable, Compiled):
        return {}
    counts: dict[str, Counter[str]] = {}
    for node in program.executable.optimized().walk():
        for place in _places([node.where], files) if isinstance(node.where, Location) else []:
            counts.setdefault(place, Counter())[str(node.op.name)] += 1
    return {place: dict(operators.most_common()) for place, operators in counts.items()}


def _places(lines: Iterable[Location], files: dict[str, str]) -> list[str]:
    """`model.py:12` of each line, with the file noted under the name that the page gives it."""
    places = []
    for line in lines:
        name = _name_of(line.file, files)
        places.append(f"{name}:{line.line}")
    return list(dict.fromkeys(places))


def _name_of(path: str, files: dict[str, str]) -> str:
    """A short name of a file that no other file of the page has."""
    parts = path.replace("\\", "/").split("/")
    for count in range(1, len(parts) + 1):
        name = "/".join(parts[-count:])
        if files.setdefault(name, path) == path:
            return name
    return path


def _source(path: str) -> list[str]:
    """The lines of a file, as Python has them: cells of notebooks too."""
    return [line.rstrip("\n") for line in linecache.getlines(path)[:SOURCE]]
