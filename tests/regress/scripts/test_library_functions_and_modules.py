"""Functions and modules of the library in scripts: those that have names of their own elsewhere, those that give one
tensor or two, recurrent layers with a state, and transformers from files.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import weft
import weft.jit
import weft.nn.functional as F
from weft import nn

RNG = np.random.default_rng(11)


def drawn(*sizes: int) -> weft.Tensor:
    return weft.tensor(RNG.standard_normal(sizes), dtype=weft.float32)


def spaces(x):
    return weft.linalg.norm(x), weft.fft.fft(x), weft.special.expit(x), weft.linalg.inv(x)


def windows(x):
    values, places = F.max_pool2d(x, 2, return_indices=True)
    more, others = F.adaptive_max_pool2d(x, 2, True)
    return values + F.max_pool2d(x, 2), places, more + F.adaptive_max_pool2d(x, (2, 2)), others


def sums(a, b, dims):
    return weft.tensordot(a, b, dims=dims)


@pytest.mark.parametrize(
    "function,args",
    [(spaces, (drawn(3, 3),)), (windows, (drawn(1, 2, 4, 4),)), (sums, (drawn(2, 3), drawn(3, 2), weft.tensor([1])))],
)
def test_functions_are_found_by_every_name(function: Any, args: tuple[Any, ...]) -> None:
    found, wanted = weft.jit.script(function)(*args), function(*args)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    assert all(weft.allclose(a, b) for a, b in pairs)


def test_which_of_two_results_must_be_known() -> None:
    with pytest.raises(weft.jit.CompileError, match="return_indices must be known while compiling"):
        weft.jit.CompilationUnit("def f(x, b: bool):\n    return F.max_pool2d(x, 2, return_indices=b)")


def test_recurrent_layers_take_their_state() -> None:
    x, h = drawn(5, 2, 3), drawn(1, 2, 4)
    for layer, state in ((nn.GRU(3, 4), h), (nn.LSTM(3, 4), (h, h))):
        scripted = weft.jit.script(layer)
        assert weft.equal(scripted(x, state)[0], layer(x, state)[0])
        assert weft.equal(scripted(x)[0], layer(x)[0])


class Around(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, activation="gelu")
        self.unused = nn.Sequential(nn.ReLU())

    def forward(self, x):
        return self.layer(x)


def test_activations_of_layers_are_in_the_file() -> None:
    layer, x = Around(), drawn(3, 2, 4)
    buffer = io.BytesIO(weft.jit.script(layer).save_to_buffer())
    assert weft.allclose(weft.jit.load(buffer)(x), layer(x), atol=1e-6)


def test_a_submodule_that_no_program_calls_can_be_called_from_python() -> None:
    scripted = weft.jit.script(Around())
    assert scripted.unused(weft.tensor([-1.0, 1.0])).tolist() == [0, 1]
    assert scripted.unused[0](weft.tensor([-1.0, 1.0])).tolist() == [0, 1]


def test_devices_are_devices() -> None:
    def devices(x, given: weft.device):
        made = weft.device("cpu")
        return made, made == x.device, given, made.type, x.device.index, x.to(made)

    found = weft.jit.script(devices)(weft.ones(1), "cpu")
    assert all(isinstance(found[i], weft.device) for i in (0, 2)) and found[1] is True and found[3:5] == ("cpu", None)
    with pytest.raises(RuntimeError, match="Expected one of"):
        weft.jit.script(devices)(weft.ones(1), "no device")


class Counted:
    @weft.jit.ignore
    def __call__(self, *args) -> str:
        return str(len(args))


def test_an_object_that_is_called_in_python() -> None:
    counted = Counted()

    @weft.jit.script
    def twice(x):
        return counted(x, x)

    assert twice(weft.ones(1)) == "2"
