"""Batched functions in functions that weft.compile captures: one program, whatever the examples' sizes and ways."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.jit_batches import test_control as control
from tests.jit_batches.batches import agrees, batch_of, draw, drawn_batch
from tests.jit_batches.programs import PROGRAMS
from weft import Tensor
from weft.jit import BatchTensor, batch
from weft.jit.interpreter.recording.values import NotRecorded

COUNT = 4
RAGGED = ("layer_norm", "attention", "norm", "bmm", "ints", "strides")
OF_ONE_SIZE = ("chunk", "scatter", "pairs")


@pytest.mark.parametrize("name", [*RAGGED, *OF_ONE_SIZE])
def test_operators(rng: np.random.Generator, name: str) -> None:
    dims = [(name in RAGGED, 4), (False, 3)]
    x = draw(rng, COUNT, *dims)
    i = [weft.from_numpy(rng.integers(0, min(3, e.shape[1]), (1, e.shape[1]))) for e in x]
    w = weft.from_numpy(rng.uniform(-1, 1, (3, 3))).requires_grad_()
    function = PROGRAMS[name]
    given = (x, batch_of(x, *dims)), w, (i, BatchTensor(i, [name in RAGGED]))
    agrees(rng, function, weft.compile(batch()(function)), *given)


def ways(x: Tensor, h: Tensor, w: Tensor) -> Tensor:
    n = 0
    for i in range(x.size(1)):
        if h.sum() > 0:
            h = weft.tanh(x.select(1, i) + h @ w)
            n = n + i
        else:
            h = h + weft.sqrt(h.sum(1, keepdim=True).abs() + 0.1) * x[:, i]
        if h.sum() > 2:
            break
    return h * n + x[:, -1]


def until(x: Tensor, h: Tensor, w: Tensor) -> Tensor:
    count = weft.zeros_like(h)
    while x.sum() > 0.5:
        x = x * 0.7 - 0.01
        count += h
        if count.sum() > 4:
            count = count * 0.5
    return count @ w + x.sum(1)


def elements(x: Tensor, h: Tensor, w: Tensor) -> Tensor:
    parts = [h, h @ w]
    seen = [h * 0, x.sum(1)]
    for i in range(x.size(1)):
        if x.select(1, i).sum() > 0:
            parts[i % 2] = weft.tanh(parts[0] + x.select(1, i))
            if parts[1].sum() > 0.3:
                seen[0] = parts[1]
        else:
            seen[1] = seen[0] - parts[1]
    return parts[0] * seen[1] + parts[1] - seen[0]


@pytest.mark.parametrize("function", [ways, until], ids=lambda f: f.__name__)
def test_examples_go_their_own_ways_in_one_program(rng: np.random.Generator, function) -> None:
    compiled = weft.compile(batch(batch_size=5)(function))

    def run(longest: int) -> None:
        w = weft.from_numpy(rng.uniform(-1, 1, (3, 3))).requires_grad_()
        agrees(rng, function, compiled, drawn_batch(rng, 5, (True, longest), (False, 3)),
               drawn_batch(rng, 5, (False, 3)), w)

    run(5)
    run(3)
    weft.counters.reset()
    run(4)
    run(8)
    assert weft.counters.captures == 0 and weft.counters.llvm_compiles == 0


def test_a_step_with_examples_of_every_size(rng: np.random.Generator) -> None:
    """A whole training step: data that differ in size and number, the same parameters as without weft.compile."""
    model = batch()(control._lstm)

    def trained(wrap) -> list[float]:
        own = np.random.default_rng(7)
        params = [weft.from_numpy(own.uniform(-1, 1, s)).requires_grad_() for s in ((4, 3, 2), (4, 2, 2), (4, 2))]
        opt = weft.optim.SGD(params, lr=0.1)

        def step(x, h, c):
            opt.zero_grad()
            w, v, b = params
            loss = (model(x, h, c, w, v, b).data ** 2).sum()
            loss.backward()
            opt.step()
            return loss

        run, losses = wrap(step), []
        for count in (3, 5, 4, 3):
            x = batch_of([e.detach() for e in draw(own, count, (True, 5), (False, 3))], (True, 5), (False, 3))
            h, c = (BatchTensor(weft.zeros(2, dtype=weft.float64), count) for _ in range(2))
            losses.append(float(run(x, h, c)))
        return [*losses, *(float(p.sum()) for p in params)]

    np.testing.assert_allclose(trained(lambda f: f), trained(weft.compile), rtol=1e-9)


def test_examples_write_elements_of_a_list_where_they_part(rng: np.random.Generator) -> None:
    compiled, w = weft.compile(batch()(elements)), weft.from_numpy(rng.uniform(-1, 1, (3, 3)))
    for longest in (3, 5):
        x, h = ([e.detach() for e in draw(rng, COUNT, *dims)] for dims in ([(True, longest), (False, 3)], [(False, 3)]))
        agrees(rng, elements, compiled, (x, batch_of(x, (True, 5), (False, 3))), (h, batch_of(h, (False, 3))), w)


def test_a_list_that_all_write_in_a_loop_of_the_run(rng: np.random.Generator) -> None:
    def rolled(x: Tensor, n: int) -> Tensor:
        parts = [x, x * 2]
        for _ in range(n):
            parts[0] = parts[0] * 0.5 + parts[1]
            parts[1] = parts[1].sin()
        return parts[0] - parts[1]

    compiled = weft.compile(batch()(rolled))
    for n in (1, 3, 6):
        agrees(rng, rolled, compiled, drawn_batch(rng, COUNT, (False, 3)), n)


def test_numbers_of_the_examples_come_out_as_a_list(rng: np.random.Generator) -> None:
    @batch(batch_size=3)
    def counted(x: Tensor) -> tuple[int, float]:
        n = 0
        while x.sum() > 1:
            x = x * 0.5
            n += x.size(1)
        return n, float(x.sum())

    compiled = weft.compile(counted)
    for _ in range(2):
        x = BatchTensor([weft.from_numpy(rng.uniform(0, 3, (1, int(rng.integers(1, 6))))) for _ in range(3)], [True])
        for mine, theirs in zip(compiled(x), counted(x), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_what_does_not_go_on_computes_nothing_that_is_seen() -> None:
    @batch(batch_size=3)
    def rooted(x: Tensor) -> Tensor:
        if x.sum() > 0:
            x = weft.sqrt(x)
        return x

    x = [weft.tensor([v], dtype=weft.float64, requires_grad=True) for v in (4.0, -2.0, 0.0)]
    found = weft.compile(rooted)(BatchTensor(x, []))
    found.data.sum().backward()
    assert found.data.tolist() == [2.0, -2.0, 0.0] and [float(v.grad) for v in x] == [0.25, 1.0, 1.0]


def test_what_needs_each_example_alone_is_refused(rng: np.random.Generator) -> None:
    def sorted_rows(x: Tensor) -> Tensor:
        return weft.sort(x, 1)[0]

    def written(x: Tensor) -> Tensor:
        y = x * 1
        z = y
        if x.sum() > 0:
            z = x * 2
        z += 1
        return y + z

    batched = drawn_batch(rng, COUNT, (True, 4))[1]
    for function, words in ((sorted_rows, "example by example"), (written, "ways have met")):
        with pytest.raises(NotRecorded, match=words):
            weft.compile(batch()(function))(batched)
