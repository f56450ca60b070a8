"""Results of operands whose elements overlap (unfold, as_strided) lie as PyTorch lays them out, in every mode: dims by
their strides, and of two with one stride the longer one outside."""

import pytest

import weft
from tests.regress.ways import WAYS

# sizes and strides of a view of one row, and the strides of what is made like it (PyTorch 2.13)
CASES = [
    ((3, 3), (1, 1), (3, 1)), ((3, 3), (1, 2), (1, 3)), ((4, 3), (1, 2), (1, 4)), ((2, 3, 4), (4, 4, 1), (4, 8, 1)),
    ((2, 3, 4), (3, 3, 3), (1, 2, 6)), ((3, 4, 4), (1, 6, 1), (1, 12, 3)), ((11, 4), (2, 1), (4, 1)),
    ((4, 11), (1, 2), (1, 4)),
]
OPERATORS = {
    "clone": lambda x: x.clone(), "like": lambda x: weft.zeros_like(x), "sin": lambda x: x.sin(),
    "compare": lambda x: x > 1, "cast": lambda x: x.double(), "sum": lambda x: x + x,
    "masked": lambda x: x.where(x > 1, 0),
}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sizes, strides, expected", CASES)
def test_strides_within(sizes, strides, expected, way, operator) -> None:
    function = OPERATORS[operator]
    assert WAYS[way](lambda x: function(x.as_strided(sizes, strides)), weft.arange(40.0)).stride() == expected


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("backend", ["llvm", "interpret"])
def test_strides_of_arguments(operator: str, backend: str) -> None:
    step = weft.compile(OPERATORS[operator], backend=backend)
    for sizes, strides, expected in CASES:
        x = weft.arange(40.0).as_strided(sizes, strides)
        assert step(x).stride() == expected
        weft.testing.assert_close(step(x), OPERATORS[operator](x))
