"""Links of the pages lead somewhere, the map of the house has every package, and every decision stands in the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`(?!\])", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    missing = [link for link in LINK.findall(text) if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_the_map_has_every_package() -> None:
    listed = set(re.findall(r"`weft/(\w+)`", (ROOT / "docs/README.md").read_text(encoding="utf-8")))
    assert listed == {p.parent.name for p in (ROOT / "weft").glob("*/__init__.py")}


def test_the_index_has_every_decision() -> None:
    folder = ROOT / "docs/decisions"
    linked = LINK.findall((folder / "README.md").read_text(encoding="utf-8"))
    assert sorted(linked) == sorted(p.name for p in folder.glob("*.md") if p.name != "README.md")
    for page in folder.glob("0*.md"):
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# {int(page.name[:4])}. ")
        assert all(f"\n{part}" in text for part in ("Context. ", "Choice. ", "What it costs. "))
