"""Batched operators: what a loop over the examples gives, gradients of first and second order included. The programs
are those of PyTorch's TestBatched (test/test_jit.py, release 1.0), sizes drawn."""

from __future__ import annotations

import pytest

import weft
from tests.jit_batches.batches import agrees, all_close, batch_of, draw, drawn_batch
from weft.jit import BatchTensor, batch

COUNT = 4


def test_a_batch_gives_its_examples_back(rng):
    examples, made = drawn_batch(rng, COUNT, (True, 3), (False, 2), (True, 5))
    all_close(made, examples)
    all_close(BatchTensor(made.get_data(), made.get_mask(), made.get_dims()), examples)
    assert made.mask.shape[2] == 1 and made.dims.tolist() == [True, False, True]
    x = weft.rand(3, 4, 5)
    all_close(BatchTensor(x, 2), [x.unsqueeze(0)] * 2)


def _tanh(a):
    return weft.tanh(a)


def _log(a):
    return weft.log(a * a)


def _add(a, b):
    return a + b


def _mm(a, b):
    return weft.mm(a, b)


def _matmul(a, b):
    return weft.matmul(a, b)


def _product(a, b):
    return (weft.matmul(a.squeeze(0), b.squeeze(0))).unsqueeze(0)


@pytest.mark.parametrize("function", [_tanh, _log])
def test_element_by_element(rng, function):
    batched = batch(batch_size=COUNT)(function)
    for dims in ([(True, 3), (False, 2)], [(True, 4), (True, 3)], [(False, 2)], []):
        agrees(rng, function, batched, drawn_batch(rng, COUNT, *dims))


def test_two_operands(rng):
    batched = batch(batch_size=COUNT)(_add)
    first = drawn_batch(rng, COUNT, (True, 3), (False, 2))
    agrees(rng, _add, batched, first, first)
    shared = weft.rand(3, 2, dtype=weft.float64, requires_grad=True)
    agrees(rng, _add, batched, drawn_batch(rng, COUNT, (False, 3), (False, 2)), shared)
    agrees(rng, _add, batched, drawn_batch(rng, COUNT, (True, 3), (False, 2)), weft.rand(2, dtype=weft.float64))
    agrees(rng, _add, batched, drawn_batch(rng, COUNT, (True, 3), (False, 2)), drawn_batch(rng, COUNT, (False, 2)))


def test_sizes_of_one_are_spread_for_the_examples_that_have_them(rng):
    sizes = [(1, 4), (4, 1), (3, 3), (1, 1)]
    a = [weft.rand(1, n, dtype=weft.float64, requires_grad=True) for n, _ in sizes]
    b = [weft.rand(1, n, dtype=weft.float64, requires_grad=True) for _, n in sizes]
    agrees(rng, _add, batch(batch_size=COUNT)(_add), (a, BatchTensor(a, [True])), (b, BatchTensor(b, [True])))


def test_products_of_matrices(rng):
    batched = batch(batch_size=COUNT)(_mm)
    first = drawn_batch(rng, COUNT, (True, 3), (False, 2))
    agrees(rng, _mm, batched, first, drawn_batch(rng, COUNT, (False, 2), (True, 3)), single=_product)
    shared = weft.rand(2, 4, dtype=weft.float64, requires_grad=True)
    agrees(rng, _mm, batched, first, shared, single=lambda a, b: weft.mm(a.squeeze(0), b).unsqueeze(0))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([(False, 2)], [(False, 2)]), ([(False, 2)], [(False, 2), (True, 3)]), ([(True, 3), (False, 2)], [(False, 2)]),
        ([(True, 3), (False, 2)], [(False, 2), (True, 3)]),
    ],
)
def test_products_by_rank(rng, first, second):
    batched = batch(batch_size=COUNT)(_matmul)
    agrees(rng, _matmul, batched, drawn_batch(rng, COUNT, *first), drawn_batch(rng, COUNT, *second), single=_product)


def test_products_along_a_dim_that_differs(rng):
    def gram(a):
        return weft.matmul(a, a.transpose(1, 2)).sum() + weft.matmul(a.transpose(1, 2), a)

    agrees(rng, gram, batch(batch_size=COUNT)(gram), drawn_batch(rng, COUNT, (True, 5), (False, 3)))


def _first(x):
    return weft.select(x, 1, 0)


def _last(x):
    return weft.select(x, 1, -1)


def _part(x):
    return x[:, :, :1]


def _turned(x):
    return x.transpose(1, 2).unsqueeze(1)


def _flat(x):
    return x.reshape(1, -1)


def _reversed(x):
    return weft.flip(x, [2])


def _long(x):
    return weft.cat([x, x * 2], 2)


def _wide(x):
    return weft.cat([x, x], 1)


@pytest.mark.parametrize("function", [_first, _last, _part, _turned, _flat, _reversed, _long, _wide])
@pytest.mark.parametrize("dims", [[(True, 3), (True, 2)], [(False, 3), (True, 4)], [(False, 2), (False, 3)]])
def test_views_and_joins(rng, function, dims):
    agrees(rng, function, batch(batch_size=COUNT)(function), drawn_batch(rng, COUNT, *dims))


def test_index_select(rng):
    def index_select(x, at):
        return x.index_select(1, at)

    batched = batch(batch_size=COUNT)(index_select)
    for dims in ([(False, 5), (True, 2)], [(True, 5), (False, 2)]):
        xs, made = drawn_batch(rng, COUNT, *dims)
        at = [weft.from_numpy(rng.integers(0, x.shape[1], 1)) for x in xs]
        agrees(rng, index_select, batched, (xs, made), (at, BatchTensor(at, weft.tensor([]).to(weft.uint8))))
    beyond = [weft.tensor([x.shape[1]]) for x in xs]
    with pytest.raises(IndexError):
        batched(made, BatchTensor(beyond, []))


def test_where(rng):
    def where(c, a, b):
        return weft.where(c, a, b)

    c = [weft.from_numpy(rng.random((1, 3, 2)) < 0.5) for _ in range(COUNT)]
    dims = [(False, 3), (False, 2)]
    batched = batch(batch_size=COUNT)(where)
    first, second = drawn_batch(rng, COUNT, *dims), drawn_batch(rng, COUNT, *dims)
    agrees(rng, where, batched, (c, batch_of(c, *dims)), first, second)


def _argmax(a):
    return weft.argmax(a, 1)


def _argmax_kept(a):
    return weft.argmax(a, 2, True)


def _softmax(a):
    return weft.softmax(a, 1)


def _softmax_last(a):
    return weft.softmax(a, 2)


def _mean(a):
    return a.mean(1)


def _spread(a):
    return a.std() + weft.logsumexp(a, 2)


def _greatest(a):
    return a.max(2)[0] + a.min(1)[0].sum()


def _sum(a):
    return a.sum(1) * a.prod(2).sum()


def _cumulative(a):
    return weft.cumsum(a, 1) * weft.cumprod(a, 2)


@pytest.mark.parametrize(
    "function", [_argmax, _argmax_kept, _softmax, _softmax_last, _mean, _spread, _greatest, _sum, _cumulative]
)
@pytest.mark.parametrize("dims", [[(True, 5), (True, 6)], [(False, 4), (True, 3)], [(False, 3), (False, 3)]])
def test_along_dims(rng, function, dims):
    if function is _spread:
        dims = [(differs, size + 1) for differs, size in dims]
        xs = [x for x in draw(rng, 40, *dims) if x.numel() > 1][:COUNT]
    else:
        xs = draw(rng, COUNT, *dims)
    batched = batch(batch_size=COUNT)(function)

    def single(x):
        found = function(x)
        return found.unsqueeze(0) if found.ndim == 0 else found

    agrees(rng, function, batched, (xs, batch_of(xs, *dims)), single=single)


def test_topk(rng):
    def topk(a):
        return weft.topk(a, 3, 1)

    def first(a):
        return weft.topk(a, 1, 2)

    for function in (topk, first):
        xs, made = drawn_batch(rng, COUNT, (False, 5), (True, 6))
        values, places = batch(batch_size=COUNT)(function)(made)
        all_close(values, [function(x)[0] for x in xs])
        all_close(places, [function(x)[1] for x in xs])
    short = BatchTensor([weft.rand(1, n) for n in (5, 2, 4, 3)], [True])
    with pytest.raises(RuntimeError, match="k"):
        batch(batch_size=COUNT)(topk)(short)


def test_view_may_name_the_batch(rng):
    def view(a):
        return a.view([4, -1, 3])

    agrees(
        rng, view, batch(batch_size=COUNT)(view), drawn_batch(rng, COUNT, (True, 5), (False, 3)),
        single=lambda x: x.view([1, -1, 3]),
    )


def test_sum_of_all(rng):
    def total(a):
        return a.sum()

    agrees(
        rng, total, batch(batch_size=COUNT)(total), drawn_batch(rng, COUNT, (True, 5), (False, 3)),
        single=lambda x: x.sum().unsqueeze(0),
    )
