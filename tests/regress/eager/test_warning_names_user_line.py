"""Warnings that operators give name the user's line, and speak of the sizes that there are."""

import inspect
import warnings

import pytest

import weft
from weft.nn import functional as F
from weft.support.warn import warn

WAYS = {"eager": lambda f: f, "compiled": weft.compile, "vmap": weft.func.vmap}


def loss(x, y):
    return F.mse_loss(x, y)


LOSS_LINE = inspect.getsourcelines(loss)[1] + 1


def warned(f, *args):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        f(*args)
    return [w for w in seen if "Using a target size" in str(w.message)]


@pytest.mark.parametrize("way", WAYS)
def test_a_target_that_is_broadcast_is_warned_of_at_the_users_line(way):
    (seen,) = warned(WAYS[way](loss), weft.randn(3, 4, 1), weft.randn(3, 1, 4))
    assert (seen.filename, seen.lineno) == (__file__, LOSS_LINE)


def test_a_size_that_happens_to_be_1_is_the_size_1():
    linear = weft.nn.Linear(2, 1)
    assert not warned(weft.compile(lambda x, y: F.mse_loss(linear(x), y)), weft.randn(5, 2), weft.randn(5, 1))


def test_sizes_that_are_symbols_are_seen_to_differ():
    assert len(warned(weft.compile(loss), weft.randn(5, 4), weft.randn(1, 4))) == 1


def test_the_line_is_that_of_the_caller_of_weft():
    with pytest.warns(FutureWarning) as seen:
        warn("so be it", FutureWarning)
    assert seen[0].filename == __file__
