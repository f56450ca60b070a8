"""Links of the pages lead somewhere, the map of the house has every package, and every decision stands in the
index and has the same sections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#]+)\)")
DECISIONS = ROOT / "docs/decisions"
SECTIONS, LONGEST, WIDEST = ["Context", "Choice", "Costs", "Not taken"], 160, 160
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
    listed = LINK.findall((DECISIONS / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(p.name for p in DECISIONS.glob("*.md") if p.name != "README.md")


@pytest.mark.parametrize("page", sorted(DECISIONS.glob("[!R]*.md")), ids=lambda p: p.stem)
def test_a_decision_has_its_sections(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    sections = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
    assert lines[0].startswith("# ") and [s for s in sections if s != "Figures"] == SECTIONS
    assert len(lines) <= LONGEST and max(map(len, lines)) <= WIDEST
