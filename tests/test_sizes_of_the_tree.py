"""Files and folders stay small enough to be read: a file has one subject, a folder one list of them.

The limit is there to ask about the subject of a long file, not to cut one subject in two.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent / "weft"
LINES, MODULES = 600, 30


def test_no_file_is_long() -> None:
    lengths = {str(p.relative_to(ROOT)): len(p.read_text(encoding="utf-8").splitlines()) for p in ROOT.rglob("*.py")}
    assert not {name: length for name, length in lengths.items() if length > LINES}


def test_no_folder_has_many_modules() -> None:
    folders = Counter(str(p.parent.relative_to(ROOT)) for p in ROOT.rglob("*.py"))
    assert not {name: count for name, count in folders.items() if count > MODULES}
