"""Lists, dicts and effects in branches and loops of scripted programs that weft.compile captures."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.jit
from tests.unit.jit.recorded_containers import PROGRAMS, checked, recurrent


def orders(function, values, w):
    """What a program gives, and the first and second gradients."""
    x, w = weft.tensor(values, requires_grad=True), weft.tensor(w, requires_grad=True)
    found = function(x, w)
    found = found if isinstance(found, tuple) else (found,)
    out = [f.detach().numpy() if isinstance(f, weft.Tensor) else f for f in found]
    loss = sum((f * f.cos()).sum() for f in found if isinstance(f, weft.Tensor) and f.requires_grad)
    first = weft.autograd.grad(loss, [x, w], create_graph=True, allow_unused=True)
    again = sum((g * g).sum() for g in first if g is not None)
    second = weft.autograd.grad(again, [x, w], allow_unused=True) if again.requires_grad else ()
    return [*out, *(np.zeros(()) if g is None else g.detach().numpy() for g in (*first, *second))]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_a_captured_program_does_what_python_does(function, rng) -> None:
    compiled = weft.compile(weft.jit.script(function))
    for rows in (3, int(rng.integers(4, 9))):
        values, w = rng.standard_normal((rows, 2)), rng.standard_normal((2, 2)) * 0.5
        for a, b in zip(orders(function, values, w), orders(compiled, values, w), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def test_one_program_serves_lists_of_every_length(rng) -> None:
    compiled = weft.compile(weft.jit.script(recurrent))
    w = rng.standard_normal((2, 2))

    def run(rows: int) -> None:
        x = weft.tensor(rng.standard_normal((rows, 2)), requires_grad=True)
        compiled(x, weft.tensor(w, requires_grad=True))[0].sum().backward()

    run(4)
    weft.counters.reset()
    for rows in rng.integers(2, 40, 3):
        run(int(rows))
    assert (weft.counters.captures, weft.counters.llvm_compiles, weft.counters.foreign_segments) == (0, 0, 0)


def test_a_list_that_python_gets_has_its_elements(rng) -> None:
    @weft.jit.script
    def rows(x, kept: list[weft.Tensor]):
        seen: list[weft.Tensor] = []
        numbers = [0.5]
        for i in range(x.size(0)):
            seen.append(x[i] * i)
            kept.append(x[i])
            numbers.append(2.0 * i)
        return seen, numbers, weft.nn.functional.relu(weft.hstack(seen)), kept

    compiled = weft.compile(lambda x: rows(x, []))
    for n in (3, 5):
        x = weft.tensor(rng.standard_normal((n, 2)))
        seen, numbers, joined, kept = compiled(x)
        np.testing.assert_allclose(weft.stack(seen).numpy(), (x.T * weft.arange(n)).T.numpy())
        np.testing.assert_allclose(joined.numpy(), weft.relu(weft.hstack(seen)).numpy())
        assert numbers == [0.5, *(2.0 * i for i in range(n))]
        assert weft.equal(weft.stack(kept), x)


def test_numbers_have_no_history(rng) -> None:
    @weft.jit.script
    def scaled(x):
        y = x * float(x.sum())
        if y.sum() > 0:
            y = y * x[0].item()
        return y

    compiled = weft.compile(scaled)
    for values in rng.standard_normal((3, 4)):
        found = []
        for function in (scaled, compiled):
            x = weft.tensor(values, requires_grad=True)
            function(x).sum().backward()
            found.append(x.grad.numpy())
        np.testing.assert_allclose(*found, rtol=1e-9)


def test_what_is_raised_in_a_loop_is_what_the_script_raises(rng) -> None:
    scripted = weft.jit.script(checked)
    compiled, w = weft.compile(scripted), weft.zeros(2, 2, dtype=weft.float64)
    compiled(weft.tensor(rng.standard_normal((3, 2))), w)
    for scale in (1e6, 1e9):
        x = weft.tensor(rng.standard_normal((4, 2)) * scale + scale)
        with pytest.raises(Exception) as expected:
            scripted(x, w)
        with pytest.raises(type(expected.value), match="too large") as found:
            compiled(x, w)
        assert str(expected.value) in str(found.value)


def test_prints_come_once_for_each_run_and_in_order(capsys) -> None:
    @weft.jit.script
    def shown(x, n: int):
        print("begin", n, x.size(0))
        for i in range(n):
            if x.sum() > 3:
                print("large", i, [x.sum(), x], sep="|", end=";\n")
            x = x + 1
        print("end", x)
        return x

    compiled = weft.compile(shown)
    for rows, n in ((2, 1), (3, 6), (4, 7)):
        texts = []
        for function in (shown, compiled):
            function(weft.zeros(rows, requires_grad=function is compiled).detach().requires_grad_(), n).sum().backward()
            texts.append(capsys.readouterr().out.replace(", requires_grad=True", ""))
        assert "large" in texts[1] or n == 1
        assert texts[1].count("\n") == texts[0].count("\n")


def test_what_has_no_one_form_runs_as_it_is_written() -> None:
    @weft.jit.script
    def some(x):
        seen: list[int] = []
        if x.sum() > 0:
            seen.append(1)
        return seen

    @weft.jit.script
    def either(x):
        a, b = [x], [x * 2]
        c = a
        if x.sum() > 0:
            c = b
        c[0] = x * 5
        return a[0] + b[0]

    @weft.jit.script
    def last(x):
        seen = [x]
        for i in range(x.size(0)):
            seen.append(seen[-1] * x[i])
        return weft.stack(seen)

    for function, words in ((some, "other elements"), (either, "one of two"), (last, "read in the loop")):
        compiled, x = weft.compile(function), weft.tensor([2.0, 3.0])
        for _ in range(2):
            found, expected = compiled(x), function(x)
            assert found == expected if isinstance(found, list) else weft.equal(found, expected)
        assert words in compiled.misses[0] and "runs as it is written" in compiled.misses[0]
