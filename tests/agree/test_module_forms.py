"""Random forms of modules within each other train as the plain module does (module_forms.py)."""

from __future__ import annotations

import pickle
import re
import warnings
from typing import Any

import numpy as np
import pytest

from tests.agree.module_forms import Forms, difference, draw, run
from tests.agree.width import times
from weft.support.errors import WeftError

IN_A_TEST = 10
REFUSALS = {  # what a form refuses, by words of its error, and why
    r"with \*args or \*\*kwargs cannot be compiled": "weft's checkpoint takes any arguments",
    r"'Module' is no type of a scripted program": "functional_call takes any Module",
    r"scripted program .* cannot be pickled": "programs are saved into files",
    r"compiled_autograd|'enable'": "a scripted program turns nothing on",
}


def refused(error: Exception) -> bool:
    return any(re.search(words, str(error)) for words in REFUSALS)


def outcome(drawn: Forms) -> tuple[list[Any] | None, str | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # a checkpoint runs the module again, which counts: also of the plain one; a trace has what is within it once
        outside = drawn.forms[::-1][: drawn.forms[::-1].index("trace")] if "trace" in drawn.forms else drawn.forms
        expected = run(drawn, ["checkpoint"] * outside.count("checkpoint"))
        try:
            return expected, difference(run(drawn, drawn.forms), expected)
        except (WeftError, pickle.PicklingError) as error:
            if refused(error):
                return expected, None
            raise


@pytest.mark.parametrize("part", range(2))
def test_forms_within_forms(part: int, rng: np.random.Generator) -> None:
    for _ in range(times(IN_A_TEST, 2)):
        drawn = draw(rng)
        problem = outcome(drawn)[1]
        assert problem is None, f"{drawn}: {problem}"
