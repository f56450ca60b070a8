"""The pages that print: each Python block is run, and what it prints must be the text that stands below it.

After a change that is meant, `WEFT_ACCEPT=1 python -m pytest tests/docs` writes the new texts;
read the difference before committing it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.run_page import examples, with_printed

ROOT = Path(__file__).resolve().parents[2]
# of adding-an-op.md, tests/test_adding_an_op.py makes an operator
PAGES = sorted(
    page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md")
    if "```python\n" in page.read_text(encoding="utf-8") and page.name != "adding-an-op.md"
)


def printed_by(page: Path) -> list[str]:
    """What the page's blocks print in a process of its own, with the knobs at their defaults."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_") or k == "WEFT_CACHE"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/docs/run_page.py"), str(page)], capture_output=True, text=True,
        encoding="utf-8", env=environment, timeout=300,
    )
    assert done.returncode == 0, done.stderr
    printed: list[str] = json.loads(done.stdout)
    return printed


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_shows_is_what_its_code_prints(name: str) -> None:
    page = ROOT / name
    text = page.read_text(encoding="utf-8")
    printed = printed_by(page)
    if os.environ.get("WEFT_ACCEPT"):
        page.write_text(with_printed(text, printed), encoding="utf-8")
        printed_again = printed_by(page)  # lines moved, and the texts name lines
        text = with_printed(text, printed_again)
        page.write_text(text, encoding="utf-8")
        printed = printed_by(page)
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
