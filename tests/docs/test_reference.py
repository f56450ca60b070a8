"""docs/reference: the pages are as a fresh run writes them, every public name stands on exactly one,
and every section says something."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import weft
from weft.ops.op import PACKETS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"
PAGES = sorted(p for p in FOLDER.glob("*.md") if p.name != "README.md")
# a line of names, or a row of the table of dtypes
NAMES = re.compile(r"(?:\| )?((?:`weft\.[\w.]+` ?)+)(?: \| \d+ \|)?")


def test_the_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/make_reference.py", "--check"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"run ./dev docs\n{done.stdout}{done.stderr}"


def listed() -> dict[str, list[str]]:
    """page -> the names that it lists."""
    found = {}
    for page in PAGES:
        lines = filter(None, map(NAMES.fullmatch, page.read_text(encoding="utf-8").splitlines()))
        found[page.name] = [name for line in lines for name in re.findall(r"`([^`]+)`", line[1])]
    return found


def shown(module: object, prefix: str) -> set[str]:
    """The names that a module lists, without modules, and without what the tests of a run have added."""
    names = getattr(module, "__all__", None) if module is not weft else None
    found = set()
    for name in names or dir(module):
        value = getattr(module, name, None)
        home = getattr(value, "__module__", "") or ""
        is_ours = (
            isinstance(value, weft.dtype)
            or (callable(value) and home.startswith("weft") and not isinstance(value, type(weft)))
        )
        ops = PACKETS.get(f"aten::{name}", ())
        if not name.startswith("_") and is_ours and all(op.origin.startswith("weft.") for op in ops):
            found.add(f"{prefix}.{name}")
    return found


def test_every_public_name_stands_on_exactly_one_page() -> None:
    everywhere = Counter(name for names in listed().values() for name in names)
    assert not [name for name, count in everywhere.items() if count > 1]
    wanted = shown(weft, "weft") | {"weft.knobs", "weft.counters"}
    for path in (
        (
            "nn", "nn.utils", "optim", "optim.lr_scheduler", "autograd", "func", "random", "utils.data",
            "utils.checkpoint", "interop",
        )
    ):
        module = weft
        for part in path.split("."):
            module = getattr(module, part)
        wanted |= shown(module, f"weft.{path}")
    for key, ops in PACKETS.items():
        space, base = key.split("::")
        if not base.startswith("_") and ops[0].origin.startswith("weft."):
            places = {p for op in ops for p in op.public}
            wanted |= {f"weft.nn.functional.{base}"} if space == "nn" and hasattr(weft.nn.functional, base) else set()
            wanted |= {f"weft.Tensor.{base}"} if space == "aten" and "Tensor" in places else set()
            wanted |= {f"weft.linalg.{base[7:]}"} if "linalg" in places and base.startswith("linalg_") else set()
            wanted |= {f"weft.fft.{base[4:]}"} if "fft" in places and base.startswith("fft_") else set()
    wanted |= {
        f"weft.Tensor.{n}"
        for n in vars(weft.Tensor) if not n.startswith("_") and n.removesuffix("_") not in user_names()
    }
    assert sorted(wanted - everywhere.keys()) == []


def user_names() -> set[str]:
    """Names of operators that a test has defined."""
    return {op.base for ops in PACKETS.values() for op in ops if not op.origin.startswith("weft.")}


def test_names_can_be_looked_up() -> None:
    for names in listed().values():
        for name in names:
            found: object = weft
            for part in name.split(".")[1:]:
                found = getattr(found, part)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_section_says_something(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert " at 0x" not in text and str(ROOT) not in text
    for section in text.split("\n## ")[1:]:
        prose = [
            line for line in section.splitlines()[1:]
            if line and not NAMES.fullmatch(line) and not line.startswith(("    ", "*"))
        ]
        assert prose, f"{page.name}: {section.splitlines()[0]} has no docstring"


def test_every_page_is_in_the_index() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\((\w[\w-]*\.md)\)", index)) == {p.name for p in PAGES}
