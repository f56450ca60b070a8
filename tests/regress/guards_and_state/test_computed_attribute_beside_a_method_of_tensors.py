"""Beside an attribute whose name is computed, the tables behind a method of a tensor that the code names were taken for
state of the user's, and the call was refused when the library filled them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import weft

PROGRAM = """
import weft

distribution = weft.distributions.Geometric

def step(value, p, names):
    d = distribution(probs=p)
    for name in names:
        if name == "clamped":
            out = d.log_prob(value.clamp(0, 1))
        elif name == "entropy":
            out = d.entropy()
        else:
            out = getattr(d, name)
    return out

compiled = weft.compile(step)
for names in (["entropy"], ["mean"], ["clamped"]):  # (in a process whose tables are empty)
    args = weft.tensor([1.0, 2.0]), weft.tensor([0.25, 0.5]), names
    weft.testing.assert_close(compiled(*args), step(*args))
"""


def test_tables_of_operators_are_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    around = {**os.environ, "PYTHONPATH": str(Path(weft.__file__).parents[1])}
    subprocess.run([sys.executable, str(path)], check=True, env=around)
