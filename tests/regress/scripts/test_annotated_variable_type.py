"""A name of a script keeps the type that its annotation says: nothing becomes that type in silence."""

from __future__ import annotations

import pytest

import weft
from weft.jit.errors import CompileError

REFUSED = {
    "a tensor as a float": "a: float = t",
    "a sum as a float": "a: float = t.sum()",
    "a tensor as an int": "a: int = t",
    "a tensor as a bool": "a: bool = t",
    "an int as a float": "a: float = 1",
    "a bool as an int": "a: int = True",
    "a float as a complex number": "a: complex = 1.0",
    "a tensor as an optional float": "a: Optional[float] = t",
    "a tensor in a tuple": "a: Tuple[float, int] = (t, 1)",
    "a tensor later": "a: float = 1.0\n    a = t",
}
TAKEN = {
    "a float": ("a: float = 1.5", 1.5),
    "a tensor that is converted": ("a: float = float(t)", 2.5),
    "an int that is converted": ("a: float = float(1)", 1.0),
    "a name without annotation": ("a = 1.0\n    a = float(t)", 2.5),
    "none": ("a: Optional[float] = None", None),
}


def scripted(line: str) -> weft.jit.CompilationUnit:
    return weft.jit.CompilationUnit(f"def f(t: Tensor):\n    {line}\n    return a\n")


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name: str) -> None:
    with pytest.raises(CompileError, match=r"is of type"):
        scripted(REFUSED[name]).f(weft.tensor(2.5))


@pytest.mark.parametrize("name", TAKEN)
def test_it_is_taken(name: str) -> None:
    line, expected = TAKEN[name]
    assert scripted(line).f(weft.tensor(2.5)) == expected
