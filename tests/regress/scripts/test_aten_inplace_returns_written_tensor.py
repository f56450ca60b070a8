"""Once a scripted program had used `add_`, `aten.add_.Tensor` gave another tensor instead of the one that it wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import weft
from weft.ops.packet import aten

def program(x: weft.Tensor) -> weft.Tensor:
    x.add_(1)
    return x

scripted = weft.jit.script(program)
x = weft.ones(2)
assert scripted(x) is x and x.tolist() == [2, 2]
assert aten.add_.Tensor(x, 1) is x and x.tolist() == [3, 3]
assert aten.add_(x, 1) is x and x.tolist() == [4, 4]
"""


def test_the_tensor_that_is_written_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    subprocess.run([sys.executable, str(path)], check=True)
