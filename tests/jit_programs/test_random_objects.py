"""Random programs over objects, unions and texts do what plain Python does."""

from __future__ import annotations

import os
from typing import Optional, Union

import pytest

import weft
import weft.jit
from tests.conftest import SEED
from tests.jit_programs.random_objects import NAMES, write_program
from weft import Tensor

COUNT = int(os.environ.get("TEST_OBJECTS", "24"))
SPACE = {**NAMES, "Optional": Optional, "Union": Union, "Tensor": Tensor}


def in_python(text: str):
    space = dict(SPACE)
    exec(text, space)
    return space["f"]


@pytest.mark.parametrize("part", range(4))
def test_a_random_program_over_objects_does_what_python_does(part: int) -> None:
    Box, told = NAMES["Box"], NAMES["told"]  # noqa: F841  (a text sees the names around it)
    for seed in range(part, COUNT, 4):
        text = write_program([SEED, seed])
        plain, scripted = in_python(text), weft.jit.CompilationUnit(text).f
        for args in ((1, 5, "xy", None, 3), (4, -2, "", 7, "text"), (0, 0, "a", 0, 0)):
            assert scripted(*args) == plain(*args), text
