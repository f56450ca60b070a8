"""Keys of stored programs tell texts, machines and compilers apart."""

from __future__ import annotations

import os
import time

from weft.codegen import program_key as keys
from weft.codegen.target import aarch64_target, x86_target


def test_texts_and_machines_have_different_keys():
    targets = (aarch64_target(), x86_target(), x86_target("x86-64-v3"))
    found = {keys.program_key(text, t) for text in ("a", "b") for t in targets}
    assert len(found) == 6 and keys.program_key("a", targets[0]) in found


def test_another_compiler_has_another_stamp(tmp_path, monkeypatch):
    for package in keys._PACKAGES:
        (tmp_path / package / "inner").mkdir(parents=True)
        (tmp_path / package / "inner" / "part.py").write_text("x = 1\n")
    monkeypatch.setattr(keys, "_HERE", str(tmp_path))
    stamps = [keys.compiler_stamp.__wrapped__()]
    (tmp_path / "loops" / "inner" / "part.py").write_text("x = 22\n")
    stamps.append(keys.compiler_stamp.__wrapped__())
    os.utime(tmp_path / "loops" / "inner" / "part.py", (time.time() + 5,) * 2)
    stamps.append(keys.compiler_stamp.__wrapped__())
    (tmp_path / "loops" / "notes.txt").write_text("no source")
    assert len(set(stamps)) == 3 and keys.compiler_stamp.__wrapped__() == stamps[-1]
