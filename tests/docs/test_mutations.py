"""The list of planted faults fits the code, and its page is the list."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_each_change_finds_its_text_and_the_page_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from mutations import CLASSES, mutations, table  # scripts are no package

    listed = mutations()
    for mutation in listed:
        source = (ROOT / mutation.file).read_text(encoding="utf-8")
        compile(mutation.applied(source), mutation.file, "exec")  # raises where the text is not there exactly once
        assert (ROOT / mutation.test.partition("::")[0]).is_file(), mutation.words
    assert {m.kind for m in listed} == set(CLASSES)
    page = (ROOT / "docs" / "mutations.md").read_text(encoding="utf-8")
    assert page.endswith(table(listed) + "\n"), "put what ./dev mutations --table prints at its end"
