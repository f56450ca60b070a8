"""Runs the Python blocks of a page in order, in one namespace, and says what each printed.
What a block prints stands below it as a `text` block.

    python tests/docs/run_page.py docs/tour.md        # JSON: what each block printed
    python tests/docs/run_page.py                     # the same for each page that a line of the input names

Source lines are those of the page, so a location that weft prints (tour.md:12) can be looked up there. The blocks run
in an empty folder: what they write goes with it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A Python block (its first line's number and its source) and the text below it; `span` is where that text stands,
    or belongs."""

    line: int
    source: str
    printed: str
    span: tuple[int, int]


def examples(page: str) -> list[Example]:
    """The Python blocks of a page in order."""
    fences = list(FENCE.finditer(page))
    found = []
    for fence, after in zip(fences, [*fences[1:], None], strict=True):
        if fence[1] != "python":
            continue
        line = page.count("\n", 0, fence.start(2)) + 1
        is_answered = after is not None and after[1] == "text" and not page[fence.end() : after.start()].strip()
        printed, span = (
            (after[2], after.span()) if after is not None and is_answered else ("", (fence.end(), fence.end()))
        )
        found.append(Example(line, fence[2], printed, span))
    return found


def with_printed(page: str, printed: list[str]) -> str:
    """The page with other texts below its Python blocks."""
    for example, text in reversed(list(zip(examples(page), printed, strict=True))):
        start, end = example.span
        block = "" if not text else f"```text\n{text}```\n" if example.printed else f"\n```text\n{text}```\n"
        page = page[:start] + block + page[end:]
    return page


def run(path: Path) -> list[str]:
    """What each Python block prints; trailing spaces left out."""
    namespace: dict[str, object] = {"__name__": "__main__", "__file__": str(path)}
    printed = []
    for example in examples(path.read_text(encoding="utf-8")):
        out = io.StringIO()
        code = compile("\n" * (example.line - 1) + example.source, str(path), "exec", dont_inherit=True)
        with contextlib.redirect_stdout(out):
            exec(code, namespace)
        printed.append(re.sub(r"[ \t]+$", "", out.getvalue(), flags=re.MULTILINE))
    return printed


def run_apart(page: Path) -> list[str]:
    """The same in an empty folder, which goes with what the blocks wrote."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        printed = run(page)
        os.chdir(page.parent)  # Windows removes no folder that a process is in
    return printed


def serve() -> None:
    """Runs each page in a process of its own, which has all of weft's modules already where a process can fork."""
    import weft.codegen.native
    import weft.compile.driver  # noqa: F401

    for line in sys.stdin:
        if not hasattr(os, "fork"):
            done = subprocess.run([sys.executable, __file__, line.strip()], capture_output=True, text=True)
            answer = {"error": done.stderr} if done.returncode else {"printed": json.loads(done.stdout)}
            print(json.dumps(answer), flush=True)
            continue
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        try:
            answer = {"printed": run_apart(Path(line.strip()).resolve())}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), flush=True)
        os._exit(0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(run_apart(Path(sys.argv[1]).resolve())))
    else:
        serve()
