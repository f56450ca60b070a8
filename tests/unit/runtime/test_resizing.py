"""Storages that get another size: who follows, and what is refused."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import weft
from weft.func import functionalize


def test_all_that_show_a_storage_follow_it() -> None:
    x = weft.arange(4.0)
    view, part, data, detached = x.view(2, 2), x[1:3], x.data, x.detach()
    view.resize_(8).fill_(7)
    part.add_(1)
    assert x.tolist() == data.tolist() == detached.tolist() == [7, 8, 8, 7]
    assert x.untyped_storage().nbytes() == data.untyped_storage().nbytes() == 32
    assert x.data_ptr() == view.data_ptr() == data.data_ptr() == part.data_ptr() - 4


def test_views_keep_their_history() -> None:
    leaf = weft.ones(6, requires_grad=True)
    base = leaf * 1
    view = base.view(2, 3)
    base.untyped_storage().resize_(40)
    view[0].mul_(2)
    base.sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [2, 2, 2, 1, 1, 1]


def test_what_backward_needs_is_refilled() -> None:
    leaf, x = weft.ones(3, requires_grad=True), weft.arange(3.0)
    loss = (leaf * x).sum()
    kept = x.clone()
    x.untyped_storage().resize_(0)
    x.untyped_storage().resize_(12)
    x.data.copy_(kept * 2)
    loss.backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [0, 2, 4]


def test_a_tensor_without_bytes_is_refused_and_comes_back() -> None:
    x = weft.arange(6.0).view(2, 3)
    view, storage = x.t(), x.untyped_storage()
    assert storage.resize_(8) is storage and storage.nbytes() == 8
    assert x.shape == (2, 3) and view.stride() == (1, 3) and x[0, :2].tolist() == [0, 1] and x.data_ptr() == 0
    later = x[1]
    uses: list[Any] = [
        lambda: x.sum(), lambda: x.add_(1), lambda: weft.ones(2, 3) + x, lambda: x.numpy(), lambda: x.tolist(),
        lambda: view.clone(), lambda: x[1, 1].item(), lambda: x.to("lazy"), lambda: weft.compile(lambda t: t + 1)(x),
        lambda: weft.compile(lambda: x + 1)(), lambda: functionalize(lambda t: t + 1)(x),
        lambda: weft.vmap(lambda t: t + 1)(x), lambda: weft.compile(lambda t: t + 1, split=True)(x),
    ]
    for use in uses:
        with pytest.raises(weft.WeftError, match="unallocated storage"):
            use()
    storage.resize_(24)
    assert x.tolist() == [[0, 1, 0], [0, 0, 0]]
    view.fill_(3)
    assert later.tolist() == [3, 3, 3]


def test_set_takes_what_it_needs() -> None:
    x = weft.arange(3.0)
    y = weft.empty(0).set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    y[1].fill_(5)
    assert x.tolist() == [0, 1, 2] and y.tolist() == [[1, 2], [5, 5]] and x.untyped_storage().nbytes() == 20


def test_memory_that_others_have_keeps_its_size() -> None:
    shared, lent = weft.from_numpy(np.ones(4, np.float32)), weft.ones(4)
    array = lent.numpy()
    for x in (shared, lent):
        for use in (lambda x=x: x.resize_(9), lambda x=x: x.untyped_storage().resize_(0), lambda x=x: functionalize(
            lambda t: t.resize_(9)
        )(x)):
            with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
                use()
    assert shared.shape == lent.shape == (4,) and not lent.untyped_storage().resizable() and array[0] == 1
    del array
    assert lent.resize_(9).shape == (9,)
    with pytest.raises(RuntimeError, match="a part of one"):
        lent.untyped_storage()[4:8].resize_(8)
    with pytest.raises(RuntimeError, match="-1 bytes"):
        lent.untyped_storage().resize_(-1)


def test_a_captured_function_leaves_storages_from_outside_alone() -> None:
    outer = weft.ones(2)
    for step in (lambda x: outer.resize_(9),
                 lambda x: outer.untyped_storage().resize_(0), lambda x: x.untyped_storage().nbytes() * x):
        with pytest.raises(weft.WeftError, match="outside"):
            weft.compile(step)(weft.ones(3))
    assert outer.tolist() == [1, 1]


def test_a_call_that_resizes_an_argument_runs_as_it_is_written() -> None:
    x = weft.ones(3)
    assert weft.compile(lambda x: x.resize_(9))(x) is x and x.shape == (9,) and x[:3].tolist() == [1, 1, 1]


def test_a_call_that_frees_an_argument_runs_as_it_is_written() -> None:
    x = weft.ones(3)
    weft.compile(lambda x: x.untyped_storage().resize_(0))(x)
    assert x.untyped_storage().nbytes() == 0 and x.shape == (3,)


def test_sizes_of_a_resized_storage_are_symbols() -> None:
    def step(x: weft.Tensor) -> tuple[weft.Tensor, int]:
        y = x * 2
        part = y.view(-1)[1:]
        part.resize_(y.numel() + 2).add_(1)
        return y, y.untyped_storage().nbytes()

    compiled = weft.compile(step)
    for n in (3, 5, 8):
        found, wanted = compiled(weft.arange(float(n))), step(weft.arange(float(n)))
        assert found[0].tolist() == wanted[0].tolist() and found[1] == wanted[1] == 4 * (n + 3)


def test_objects_that_the_collector_does_not_see_are_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """What earlier tests left is frozen; in this test alone it counts as objects that may show the storage."""
    x = weft.ones(2)
    other = x.view(2)
    with monkeypatch.context() as seen:
        seen.setattr("weft.runtime.moving.gc", gc)
        assert gc.get_freeze_count()
        with pytest.raises(RuntimeError, match=r"gc\.unfreeze"):
            x.resize_(3)
    assert other.tolist() == x.resize_(3)[:2].tolist() == [1, 1]
