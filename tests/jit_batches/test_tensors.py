"""BatchTensor: what it holds, what it refuses, and what stands behind the examples' ends."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.jit_batches.batches import agrees, all_close, batch_of, draw, drawn_batch
from weft.jit import BatchTensor, batch

COUNT = 4


def test_data_is_padded_with_zeros_and_the_mask_says_where():
    made = BatchTensor([weft.ones(1, 2, 3), weft.ones(1, 1, 3)], weft.tensor([1, 0]).to(weft.uint8))
    assert made.data.tolist() == [[[1.0] * 3] * 2, [[1.0] * 3, [0.0] * 3]]
    assert made.mask.tolist() == [[[True], [True]], [[True], [False]]]
    assert made.dims.tolist() == [True, False] and made.batch_size == 2
    assert repr(made) == "BatchTensor(examples of (1, 2, 3), (1, 1, 3), dtype=weft.float32)"


def test_gradients_reach_the_examples(rng):
    examples, made = drawn_batch(rng, COUNT, (True, 3), (False, 2))
    (made.data * 2).sum().backward()
    assert all((e.grad == 2).all() for e in examples)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (lambda: ([], []), "the list has no example"),
        (lambda: ([weft.ones(2, 3)], [True]), r"example 0 has shape \(2, 3\)"),
        (lambda: ([weft.ones(3)], [True]), r"example 0 has shape \(3,\).*unsqueeze"),
        (lambda: ([weft.ones(1, 3), weft.ones(1, 2)], [False]), r"dim 1 has size 3 in example 0 and 2 in example 1"),
        (lambda: ([weft.ones(1), weft.ones(1, dtype=weft.int64)], []), "example 0 is .*float32, example 1 is .*int64"),
        (lambda: ([weft.ones(1), 3.0], []), "example 1 is a float, not a tensor"),
        (lambda: ([weft.ones(1, 2)], 3), "give a list of examples and dims"),
        (lambda: ([weft.ones(1, 2)], [5]), "dims says for each dim"),
        (lambda: (weft.ones(2, 3), 0), "at least once"),
        (lambda: (weft.ones(2, 3), weft.ones(2, 3, 1), [True]), "data of 2 dims has a mask of as many dims"),
        (lambda: (weft.ones(2, 3), weft.ones(2, 2), [True]), "dim 1 has size 3 in data and 2 in the mask"),
        (lambda: (weft.ones(1, 3), weft.tensor([[0, 1, 1]]), [True]), "True from each example's beginning"),
        (lambda: (weft.ones(0, 3), weft.ones(0, 3), [True]), "the batch has no example"),
    ],
)
def test_misuse_is_refused(arguments, problem):
    with pytest.raises((RuntimeError, TypeError), match=problem):
        BatchTensor(*arguments())


def test_arguments_must_be_of_as_many_examples():
    @batch(batch_size=3)
    def add(a, b):
        return a + b

    two, three = (BatchTensor(weft.ones(2), n) for n in (2, 3))
    with pytest.raises(TypeError, match="a BatchTensor of 2 examples is given where a batch has 3"):
        add(two, three)
    with pytest.raises(TypeError, match="missing value for argument 'b'"):
        add(three)
    with pytest.raises(TypeError, match="batch_size is a positive integer, not 0"):
        batch(batch_size=0)
    with pytest.raises(TypeError, match="batch_size is a positive integer"):
        batch(lambda x: x)
    any_count = batch()(lambda_like)
    assert any_count(two).batch_size == 2 and any_count(three).batch_size == 3
    with pytest.raises(TypeError, match="no BatchTensor is given"):
        any_count(weft.ones(2))
    all_close(batch(batch_size=2)(lambda_like)(weft.ones(3)), [weft.ones(1, 3) * 2] * 2)


def lambda_like(x):
    return x * 2


def test_values_that_are_no_tensors_come_back_as_lists():
    @batch()
    def facts(x):
        return x.size(1), x.sum() > 1, 2.5, [x, x * 2], {"half": x / 2}

    x = BatchTensor([weft.ones(1, 3), weft.ones(1, 1)], [True])
    sizes, more, number, both, named = facts(x)
    assert sizes == [3, 1] and more.data.tolist() == [True, False] and number == [2.5, 2.5]
    all_close(both[1], [weft.ones(1, 3) * 2, weft.ones(1, 1) * 2])
    all_close(named["half"], [weft.ones(1, 3) / 2, weft.ones(1, 1) / 2])


# ---- NaN behind the ends
def _through(x, w):
    y = weft.log(x.abs() + 1e-3) * w
    z = (y / x).softmax(1) + weft.sqrt(x * x)
    return weft.matmul(z.transpose(1, 2), y).sum(1) + z.max(1)[0] + y.mean(1) + (y * y).prod(1)


def test_nan_in_the_padding_reaches_nothing(rng):
    dims = [(True, 5), (False, 3)]
    examples = draw(rng, COUNT, *dims)
    clean = batch_of(examples, *dims)
    spoilt = clean.data.detach().clone()
    spoilt[(~clean.mask).expand(spoilt.shape)] = float("nan")
    spoilt.requires_grad_()
    made = BatchTensor(spoilt, clean.mask, clean.dims)
    w = weft.from_numpy(rng.uniform(0.5, 1, 3)).requires_grad_()
    found = batch()(_through)(made, w)
    wanted = [_through(e, w) for e in examples]
    all_close(found, wanted)
    of_w, of_data = weft.autograd.grad(found.data.sum(), [w, spoilt])
    (wanted_w,) = weft.autograd.grad(sum(t.sum() for t in wanted), [w])
    np.testing.assert_allclose(of_w.numpy(), wanted_w.numpy(), rtol=1e-8)
    inside = np.broadcast_to(clean.mask.numpy(), tuple(spoilt.shape))
    assert np.isfinite(of_data.numpy()[inside]).all() and (of_data.numpy()[~inside] == 0).all()


def test_nan_of_one_example_is_its_own(rng):
    def ways(x, w):
        if x.sum() > 0:  # noqa: SIM108
            y = weft.sqrt(x * w)
        else:
            y = weft.exp(x * w)
        return y

    x = [weft.tensor([v], dtype=weft.float64, requires_grad=True) for v in (2.0, -3.0, 0.5)]
    agrees(rng, ways, batch()(ways), (x, BatchTensor(x, [])), weft.tensor([1.5], dtype=weft.float64).requires_grad_())


# ---- what cannot be done for each example on its own
class Counter(weft.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0.0
        self.scale = weft.nn.Parameter(weft.ones(3))

    def forward(self, x):
        self.seen = float(x.sum())
        return x


def test_a_module_is_batched_by_its_forward(rng):
    model = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.Tanh(), weft.nn.Linear(4, 2)).double()
    batched = batch()(model)
    examples, made = drawn_batch(rng, COUNT, (True, 4), (False, 3))
    all_close(batched(made), [model(e) for e in examples])


def test_shared_state_cannot_be_written():
    with pytest.raises(weft.jit.CompileError, match=r"the attribute 'seen'[\s\S]*self\.seen = float[\s\S]*\^"):
        batch()(Counter())

    @weft.jit.script
    def writes(x, total):
        total += x
        return total

    shared = weft.ones(2)
    with pytest.raises(weft.jit.CompileError, match=r"tensor that all examples share[\s\S]*total \+= x[\s\S]*\^"):
        batch()(writes)(BatchTensor([weft.ones(1, 2)], [False]), shared)
    assert shared.tolist() == [1.0, 1.0]

    @batch()
    def keeps(x, rows: list[weft.Tensor]):
        if x.sum() > 1:
            rows.append(x)
        return x

    with pytest.raises(RuntimeError, match="list or dict that all examples share is written to"):
        keeps(BatchTensor([weft.ones(1, 2), weft.zeros(1, 2)], [False]), [])


def test_ranks_that_hang_on_the_way_are_refused_with_the_line():
    @batch()
    def either(x):
        return x.sum() if x.sum() > 1 else x

    with pytest.raises(RuntimeError, match=r"tensors of 0 and 1 dims, by the ways[\s\S]*test_tensors.py"):
        either(BatchTensor([weft.ones(1), weft.ones(1) * 2], []))


def test_a_view_that_is_a_copy_is_not_written_into():
    @batch()
    def last(x):
        y = x * 1
        y.select(1, -1).add_(1)
        return y

    all_close(last(BatchTensor([weft.zeros(1, 2)] * 2, [False])), [weft.tensor([[0.0, 1.0]])] * 2)
    with pytest.raises(RuntimeError, match=r"add_: this writes into a part of something that each"):
        last(BatchTensor([weft.zeros(1, 2), weft.zeros(1, 3)], [True]))
