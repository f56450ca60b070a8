"""A compiled function may ask for attributes of weft by names that it computes: the tables of weft's operators are no
state of the function's."""

import weft


def _named(module, name):
    return getattr(module, name)


def test_a_computed_name_of_weft_and_an_operator():
    @weft.compile
    def step(x):
        return weft.where(x > 0, x, x * 2).to(_named(weft, "float64"))

    assert step(weft.ones(5)).dtype is weft.float64
    assert step(weft.ones(6, 3)).tolist() == [[1.0] * 3] * 6
    assert step(weft.full((2,), -1.0, dtype=weft.float64)).tolist() == [-2.0, -2.0]
