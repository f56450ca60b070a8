"""Branches and loops that examples go through differently: what a loop over the examples gives, with gradients."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.jit_batches.batches import agrees, all_close, batch_of, drawn_batch
from weft.jit import BatchTensor, batch

COUNT = 4


def _if_else(a, b):
    if a > b:  # noqa: SIM108
        a = a + b
    else:
        a = a - b
    return a


def _if_else_number(a, b):
    if a > 0.1:  # noqa: SIM108
        a = a * b
    else:
        a = a - b
    return a


def _if_alone(a, b):
    if a > b:
        a = a + b
    return a


def _if_alone_number(a, b):
    if a > 0.1:
        a = a + b
    return a


def _nested(a, b):
    if a > 0:
        if b > 0:
            a = a * b
        else:
            b = b * 2
        c = a * b
    else:
        c = a.exp()
    return c + b


def _for(a, b):
    for _ in range(10):
        a = a + b
    return a


def _while(a, b):
    while a.abs() < 5:
        a = a * 1.5 + b.abs() + 0.1
    return a


def _broken(a, b):
    for i in range(12):
        if a > 2:
            break
        if i % 3 == 1:
            continue
        a = a + b.abs() * i
    else:
        b = b * 3
    return a + b


def _returned(a, b):
    for i in range(6):
        a = a + 0.5
        if a > 1:
            return a * i
    if b > 0:
        return b
    return a - b


def _inner(a, b):
    while a.abs() < 4:
        k = a
        while k.abs() < 2:
            k = k * 2 + 0.3
        a = a + k.abs() * b.abs() + 0.2
    return a


@pytest.mark.parametrize(
    "function",
    [_if_else, _if_else_number, _if_alone, _if_alone_number, _nested, _for, _while, _broken, _returned, _inner],
)
def test_ways_of_numbers(rng, function):
    batched = batch(batch_size=COUNT)(function)
    for _ in range(3):
        agrees(rng, function, batched, drawn_batch(rng, COUNT), drawn_batch(rng, COUNT))


def test_while_as_it_was_written_first(rng):
    def single_while(a, b):
        while a > b:
            a = a - b
        return a

    b = [weft.from_numpy(rng.uniform(0.05, 0.4, 1)).requires_grad_() for _ in range(COUNT)]
    agrees(rng, single_while, batch(batch_size=COUNT)(single_while), drawn_batch(rng, COUNT), (b, BatchTensor(b, [])))


def _of_sizes(x, w):
    total = weft.zeros(1, 3, dtype=weft.float64)
    for i in range(x.size(1)):
        row = x.select(1, i)
        if row.sum() > 0:
            total = weft.tanh(total + row.matmul(w))
    return total


def _rows(x, w):
    for i in range(x.size(1) // 2 + 1):
        x = weft.cat([x, x[:, i : i + 1]], 1)
    return x.matmul(w)


def _mean_length(x, w):
    n = x.size(1)
    return x.sum(1) / n + n * w.sum() + x.numel() ** 0.5 - float(n) / (n + 1)


def _lists(x, w):
    rows = []
    i = 0
    while i < x.size(1):
        if x[0, i].sum() > 0:
            rows.append(x[:, i] * (len(rows) + 1))
        i += 1
    if len(rows) == 0:
        return x.sum(1).matmul(w)
    return weft.stack(rows, 1).sum(1).matmul(w)


@pytest.mark.parametrize("function", [_of_sizes, _rows, _mean_length, _lists])
def test_ways_of_sizes(rng, function):
    batched = batch(batch_size=5)(function)
    for _ in range(2):
        w = weft.from_numpy(rng.uniform(-1, 1, (3, 3))).requires_grad_()
        agrees(rng, function, batched, drawn_batch(rng, 5, (True, 6), (False, 3)), w)


# ---- an LSTM, and a search with it
def _cell(x, h, c, w, v, b):
    i_t = weft.sigmoid(weft.matmul(x, w[0]) + weft.matmul(h, v[0]) + b[0])
    f_t = weft.sigmoid(weft.matmul(x, w[1]) + weft.matmul(h, v[1]) + b[1])
    o_t = weft.sigmoid(weft.matmul(x, w[2]) + weft.matmul(h, v[2]) + b[2])
    c_t = weft.tanh(weft.matmul(x, w[3]) + weft.matmul(h, v[3]) + b[3])
    c_t = weft.mul(c_t, f_t) + weft.mul(i_t, c_t)
    return weft.mul(o_t, weft.tanh(c_t)), c_t


def _lstm(x_all, h, c, w, v, b):
    for i in range(x_all.size(1)):
        h, c = _cell(x_all.select(1, i), h, c, w, v, b)
    return h


def _greedy(x, h, c, embed, w, v, b, w_s, b_s, iter_num):
    iter_count = weft.zeros_like(iter_num)
    while iter_count < iter_num:
        iter_count += 1
        h, c = _cell(x, h, c, w, v, b)
        p_t = weft.softmax(weft.matmul(h, w_s) + b_s, 1)
        x = embed.index_select(1, weft.argmax(p_t, 1)).squeeze(1)
    return h


def _beam(x, h, c, embed, w, v, b, w_s, b_s, iter_num, idx):
    k = 5
    vocab_size = embed.size(1)
    iter_count = weft.zeros_like(iter_num)
    max_len = idx.size(2)
    while iter_count < iter_num:
        iter_count += 1
        h_t, c_t = _cell(x, h, c, w, v, b)
        s_t = weft.matmul(h_t, w_s) + b_s
        s_t = s_t.view([1, s_t.size(1) * s_t.size(2)])
        _, idx_t = weft.topk(weft.softmax(s_t, 1), k, 1)
        chosen = idx_t.squeeze(0) if idx_t.dim() > 1 else idx_t
        new_y, pre_y = weft.fmod(chosen, vocab_size), chosen // vocab_size
        x = embed.index_select(1, new_y)
        h, c = h_t.index_select(1, pre_y), c_t.index_select(1, pre_y)
        step = int(iter_count[0])
        idx = weft.cat([
            idx.narrow(2, 0, step).index_select(1, pre_y),
            weft.fmod(idx_t, vocab_size).unsqueeze(-1),
            idx.narrow(2, step, max_len - step),
        ], 2)
        idx = idx.narrow(2, 0, max_len)
    return idx.narrow(2, 0, int(iter_num[0]))


def _weights(rng, *shape):
    return weft.from_numpy(rng.uniform(-1, 1, shape)).requires_grad_()


def test_lstm(rng):
    size, hidden = 3, 2
    agrees(
        rng, _lstm, batch(batch_size=COUNT)(_lstm), drawn_batch(rng, COUNT, (True, 4), (False, size)),
        drawn_batch(rng, COUNT, (False, hidden)), drawn_batch(rng, COUNT, (False, hidden)),
        _weights(rng, 4, size, hidden), _weights(rng, 4, hidden, hidden), _weights(rng, 4, hidden),
    )


def test_greedy_search(rng):
    size, hidden, vocabulary = 6, 8, 7
    counts = [weft.from_numpy(rng.integers(2, 5, 1)) for _ in range(COUNT)]
    agrees(
        rng, _greedy, batch(batch_size=COUNT)(_greedy), drawn_batch(rng, COUNT, (False, size)),
        drawn_batch(rng, COUNT, (False, hidden)), drawn_batch(rng, COUNT, (False, hidden)),
        drawn_batch(rng, COUNT, (False, vocabulary), (False, size)), _weights(rng, 4, size, hidden),
        _weights(rng, 4, hidden, hidden), _weights(rng, 4, hidden), _weights(rng, hidden, vocabulary),
        _weights(rng, vocabulary), (counts, BatchTensor(counts, [])),
    )


def test_beam_search(rng):
    size, hidden, vocabulary, longest = 6, 8, 7, 5
    counts = [weft.from_numpy(rng.integers(2, longest + 1, 1)) for _ in range(COUNT)]
    places = [weft.zeros(1, 5, longest, dtype=weft.int64) for _ in range(COUNT)]
    state = [(False, 1), (False, hidden)]
    with weft.no_grad():
        agrees(
            rng, _beam, batch(batch_size=COUNT)(_beam), drawn_batch(rng, COUNT, (False, 1), (False, size)),
            drawn_batch(rng, COUNT, *state), drawn_batch(rng, COUNT, *state),
            drawn_batch(rng, COUNT, (False, vocabulary), (False, size)), _weights(rng, 4, size, hidden),
            _weights(rng, 4, hidden, hidden), _weights(rng, 4, 1, hidden), _weights(rng, hidden, vocabulary),
            _weights(rng, 1, vocabulary), (counts, BatchTensor(counts, [])),
            (places, batch_of(places, (False, 5), (True, longest))),
        )


# ---- who runs what
def test_a_body_that_no_example_enters_is_not_run(capsys):
    @batch(batch_size=3)
    def loud(x):
        while x.sum() > 100:
            print("body")
            x = x - 1
        if x.sum() > 100:
            print("branch")
        return x

    x = BatchTensor([weft.ones(1, n) for n in (1, 2, 3)], [True])
    all_close(loud(x), [weft.ones(1, n) for n in (1, 2, 3)])
    assert capsys.readouterr().out == ""


def test_prints_are_those_of_the_examples(capsys):
    @batch(batch_size=3)
    def told(x):
        if x.sum() > 1:
            print("more than one:", x.size(1), f"{x.size(1)} long")
        return x

    told(BatchTensor([weft.ones(1, n) for n in (1, 2, 3)], [True]))
    assert capsys.readouterr().out == "more than one: 2 2 long\nmore than one: 3 3 long\n"


def test_what_only_some_examples_may_compute_is_not_computed_for_the_others():
    @batch(batch_size=3)
    def guarded(x):
        if x.sum() > 0:
            return weft.sqrt(x)
        n = int(x.sum())
        if n < 0:
            return x * (6 // n)
        return x

    x = [weft.tensor([v], dtype=weft.float64, requires_grad=True) for v in (4.0, -2.0, 0.0)]
    found = guarded(BatchTensor(x, []))
    found.data.sum().backward()
    assert found.data.tolist() == [2.0, 6.0, 0.0] and [float(v.grad) for v in x] == [0.25, -3.0, 1.0]


def test_an_error_of_one_example_is_raised_with_its_line():
    @batch(batch_size=2)
    def checked(x):
        assert x.size(1) < 3, "too long"
        return x

    checked(BatchTensor([weft.ones(1, 2), weft.ones(1, 1)], [True]))
    with pytest.raises(AssertionError, match=r"too long[\s\S]*test_control.py, line"):
        checked(BatchTensor([weft.ones(1, 2), weft.ones(1, 3)], [True]))


def test_writes_reach_what_they_were_taken_from(rng):
    def written(x):
        y = x * 1
        z = y.select(1, 0)
        while y.sum() < 3:
            y += 1
        if y.sum() < 4:
            y[:, 0] = 2.5
        return y + z.sum()

    agrees(rng, written, batch(batch_size=5)(written), drawn_batch(rng, 5, (True, 4)))
    agrees(rng, written, batch(batch_size=5)(written), drawn_batch(rng, 5, (False, 3)))


def test_random_numbers_are_each_examples_own():
    @batch(batch_size=3)
    def drawn(x):
        return x + weft.rand(2)

    weft.manual_seed(3)
    found = drawn(BatchTensor([weft.zeros(1, 2)] * 3, [False])).data.numpy()
    assert len(np.unique(found)) == 6


def _partly_written(x, y):
    if x.sum() > 0:
        x = x * 2
    x += 1
    z = y if x.mean() > 1.2 else x
    z.mul_(3)
    return x + y.sum() * 0.1


@pytest.mark.parametrize("dims", [[(True, 4)], [(False, 2)], []])
def test_writes_after_ways_have_met_reach_what_was_left_as_it_was(rng, dims):
    """Each example's argument is written into, or not, as its way has it."""
    function = batch(batch_size=COUNT)(_partly_written)
    first, second = ([e.detach() for e in drawn_batch(rng, COUNT, *dims)[0]] for _ in range(2))
    second = [weft.from_numpy(rng.uniform(-1, 1, tuple(e.shape))) for e in first]
    x, y = (batch_of([e.clone() for e in examples], *dims) for examples in (first, second))
    all_close(function(x, y), [_partly_written(a, b) for a, b in zip(first, second, strict=True)])
    all_close(x, first)
    all_close(y, second)


class Pair:
    def __init__(self, x: weft.Tensor, n: int):
        self.x = x
        self.n = n

    def grown(self) -> weft.Tensor:
        self.n += 1
        if self.x.sum() > 0:
            self.x = self.x * self.n
        return self.x


def _objects(x):
    pair = Pair(x, x.size(1))
    while pair.n < 4:
        x = x + pair.grown()
    return x * pair.n


def test_objects_are_each_examples_own(rng):
    weft.jit.script(Pair)
    agrees(rng, _objects, batch(batch_size=COUNT)(_objects), drawn_batch(rng, COUNT, (True, 5)))


def _seen_by_a_view(x):
    y = x * 1
    z = y[:, 0]
    total = x.sum(1) * 0
    for i in range(3):
        if x.sum() > i * 0.2:
            y += 0.5
            total = total + z
            z.mul_(1.5)
            total = total + y.sum(1)
        x = x * 0.9
    return total + y.sum(1) + z


@pytest.mark.parametrize("dims", [[(True, 4), (False, 2)], [(False, 3), (False, 2)]])
def test_a_view_made_before_sees_what_some_examples_write(rng, dims):
    agrees(rng, _seen_by_a_view, batch(batch_size=5)(_seen_by_a_view), drawn_batch(rng, 5, *dims))


def _lists_that_grow(x):
    items = [x.size(1), 1]
    items = items + [x.size(1) * 2]  # noqa: RUF005
    if x.sum() > 0:
        items[-1] = 7
    more = items + items
    return x * len(more) + more[2] + items[0]


def test_a_list_of_numbers_that_differ_is_each_examples_own(rng):
    agrees(rng, _lists_that_grow, batch(batch_size=COUNT)(_lists_that_grow), drawn_batch(rng, COUNT, (True, 4)))
