"""The pages that print: each Python block is run, and what it prints must be the text that stands below it.

After a change that is meant, `WEFT_ACCEPT=1 python -m pytest tests/docs` writes the new texts;
read the difference before committing it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.run_page import examples, with_printed

ROOT = Path(__file__).resolve().parents[2]
# of adding-an-op.md, tests/test_adding_an_op.py makes an operator
PAGES = sorted(
    page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md")
    if "```python\n" in page.read_text(encoding="utf-8") and page.name != "adding-an-op.md"
)


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    """What runs pages, with the knobs at their defaults."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_") or k == "WEFT_CACHE"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    with subprocess.Popen(
        [sys.executable, str(ROOT / "tests/docs/run_page.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, encoding="utf-8", env=environment,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def printed_by(page: Path, server: subprocess.Popen[str]) -> list[str]:
    """What the page's blocks print in a process of its own."""
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(f"{page}\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    assert "error" not in answer, answer["error"]
    printed: list[str] = answer["printed"]
    return printed


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_shows_is_what_its_code_prints(name: str, server: subprocess.Popen[str]) -> None:
    page = ROOT / name
    text = page.read_text(encoding="utf-8")
    printed = printed_by(page, server)
    if os.environ.get("WEFT_ACCEPT"):
        page.write_text(with_printed(text, printed), encoding="utf-8")
        printed_again = printed_by(page, server)  # lines moved, and the texts name lines
        text = with_printed(text, printed_again)
        page.write_text(text, encoding="utf-8")
        printed = printed_by(page, server)
    shown = [(f"{name}:{e.line}", e.printed) for e in examples(text)]
    assert (
        [(where, was) for (where, was) in shown]
        == [(where, now) for (where, _), now in zip(shown, printed, strict=True)]
    )


def test_texts_are_found_replaced_and_left_out() -> None:
    page = "# A\n```python\nprint(1)\n```\n\n```text\n0\n```\nthen\n\n```python\nx = 2\n```\nmore\n\n```sh\nls\n```\n"
    found = examples(page)
    assert [(e.line, e.source, e.printed) for e in found] == [(3, "print(1)\n", "0\n"), (12, "x = 2\n", "")]
    assert with_printed(page, ["0\n", ""]) == page
    changed = with_printed(page, ["1\n", "2\n"])
    assert [e.printed for e in examples(changed)] == ["1\n", "2\n"]
    assert [e.printed for e in examples(with_printed(changed, ["", "2\n"]))] == ["", "2\n"]
