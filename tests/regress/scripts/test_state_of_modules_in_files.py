"""A scripted Module with exported __getstate__ and __setstate__: a file holds what the first gives, and the second
runs when the file is read. What it takes is of the type that the first gives, where nothing else is said."""

import io

import pytest

import weft
from weft import nn


class Counts(nn.Module):
    """Its number is one greater in the file, its buffer ten greater when it is read."""

    def __init__(self, number: int = 3):
        super().__init__()
        self.number = number
        self.register_buffer("shift", weft.ones(2))
        self.weight = nn.Parameter(weft.full((2,), 2.0))

    @weft.jit.export
    def __getstate__(self):
        return (self.number + 1, self.shift, self.training)

    @weft.jit.export
    def __setstate__(self, state):
        self.number = state[0]
        self.shift = state[1] + 10
        self.training = state[2]

    def forward(self, x):
        return x * self.weight + self.number + self.shift


class Annotated(Counts):
    @weft.jit.export
    def __setstate__(self, state: tuple[int, weft.Tensor, bool]):
        self.number = state[0]
        self.shift = state[1] + 10


class Outer(nn.Module):
    """Its own state asks that of the Module below it, which was there before."""

    def __init__(self):
        super().__init__()
        self.inner = Counts(5)
        self.last = 0.0

    @weft.jit.export
    def __getstate__(self):
        return {"last": 1.5}

    @weft.jit.export
    def __setstate__(self, state):
        self.last = state["last"] + self.inner.number

    def forward(self, x):
        return self.inner(x) + self.last


def read_back(module):
    buffer = io.BytesIO()
    weft.jit.save(module, buffer)
    buffer.seek(0)
    return weft.jit.load(buffer)


@pytest.mark.parametrize("kind", [Counts, Annotated])
def test_scripted(kind):
    x = weft.rand(2)
    module = weft.jit.script(kind())
    loaded = read_back(module)
    assert weft.allclose(module(x), x * 2 + 4)
    assert weft.allclose(loaded(x), x * 2 + 4 + 11)
    assert weft.allclose(read_back(loaded)(x), x * 2 + 5 + 21)
    assert weft.allclose(module(x), x * 2 + 4)


def test_traced():
    x = weft.rand(2)
    loaded = read_back(weft.jit.trace(Counts(), (x,)))
    assert weft.allclose(loaded(x), x * 2 + 3 + 11)  # (the trace has the number as it was)


def test_those_below_come_first():
    x = weft.rand(2)
    loaded = read_back(weft.jit.script(Outer()))
    assert loaded.last == 7.5
    assert weft.allclose(loaded(x), x * 2 + 6 + 11 + 7.5)


def test_training_is_state():
    assert not read_back(weft.jit.script(Counts().eval())).training


def test_one_of_the_two_is_no_state():
    class Half(nn.Module):
        @weft.jit.export
        def __getstate__(self):
            return 3

        def forward(self, x):
            return x

    assert read_back(weft.jit.script(Half()))(weft.ones(1)).tolist() == [1.0]


def test_a_state_of_modules_is_refused():
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Counts()

        @weft.jit.export
        def __getstate__(self):
            return (self.inner, 1)

        @weft.jit.export
        def __setstate__(self, state):
            pass

        def forward(self, x):
            return self.inner(x)

    with pytest.raises(TypeError, match="gives a Module"):
        read_back(weft.jit.script(Whole()))
