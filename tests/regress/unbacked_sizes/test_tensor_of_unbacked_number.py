"""weft.tensor of a number that a compiled program finds while it runs; operators whose bodies work on bits."""

import weft
import weft.jit


@weft.jit.script
def gathered(x, n: int):
    i, a = 0, float(x.sum())
    while bool(x.sum() < 50) and i < n:
        x = x + weft.tensor([a, 1.0, 2.0]) * weft.tensor(i) + weft.tensor([[i, 2, 3]]).sum()
        i += 1
    return x, weft.tensor(a), weft.tensor([i, 1]), weft.tensor([a > 4.0]), weft.as_tensor(a, dtype=weft.float64)


def test_tensors_of_such_numbers():
    compiled = weft.compile(gathered)
    for value in (1.0, 2.0, 30.0):
        x = weft.full((3,), value)
        for a, b in zip(gathered(x, 9), compiled(x, 9), strict=True):
            assert weft.equal(a, b) and a.dtype == b.dtype


def test_a_bound_of_such_a_number():
    @weft.jit.script
    def shrunk(x):
        return weft.nn.functional.hardshrink(x, float(x.abs().mean()))

    x = weft.tensor([1.0, -0.2, 0.3, -0.8])
    with weft.no_grad():
        assert weft.equal(weft.compile(shrunk)(x), shrunk(x))
