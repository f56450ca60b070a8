"""weft.explain: one object for whatever runs as programs, with the user's lines and names, and without effects."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from tests.deferred import deferred
from tests.source_lines import line_of
from weft.explanations.text import amount, duration, short_operators
from weft.support.errors import ArgumentError
from weft.support.locations import user_location

nn = weft.nn


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x: Any) -> Any:
        return x + self.down(F.gelu(self.up(x)))  # block


def place_of(function: Any, text: str) -> str:
    return f"test_explain.py:{line_of(function, text)}"


@pytest.fixture(scope="module")
def training() -> Any:
    model = nn.Sequential(Block(), Block())
    opt = weft.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @weft.compile
    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    step(weft.ones(4, 8))
    return step, model


def test_a_page_that_a_person_reads(training: Any) -> None:
    step, _ = training
    explanation = weft.explain(step, weft.ones(4, 8))
    text = str(explanation)
    lines = text.splitlines()
    assert 8 <= len(lines) <= 30
    assert lines[0] == f"step: compiled function, {place_of(step.function, '@weft.compile')}"
    assert "to compile it: capture" in text and "in native code" in text and "slowest kernels:" in text
    assert "guards" in lines[-1] and not any("_forward_hooks" in line for line in lines)
    assert explanation.guards and any("_forward_hooks" in g for g in explanation.guards)
    assert "captured and compiled in" in explanation.details() and f"state: {len(explanation.state)}" in (
        explanation.details()
    )


def test_kernels_have_the_users_lines_and_parameters(training: Any) -> None:
    step, model = training
    (program,) = weft.explain(step, weft.ones(4, 8)).programs
    kernels = program.kernel_times
    lines = " ".join(k.lines for k in kernels)
    number = place_of(Block.forward, "# block").split(":")[1]
    assert re.search(rf"test_explain\.py:(\d+, )*{number}\b", lines)
    named = {name for k in kernels for name in k.params}
    assert {name for name, _ in model.named_parameters()} <= named
    assert {"momentum_buffer of 0.up.weight", "grad of 1.down.weight", "x"} <= named
    assert not any(name.startswith("state") for name in named)
    assert sum(k.launches for k in kernels) == len(program.kernels)
    times = program.measured
    assert not isinstance(times, str) and sum(k.seconds for k in kernels) <= times.native <= times.seconds


def test_measuring_changes_nothing(training: Any) -> None:
    step, model = training
    before = [p.detach().clone() for p in model.parameters()]
    counts, drawn = weft.counters.as_dict(), weft.get_rng_state()
    print(weft.explain(step))
    assert weft.counters.as_dict() == counts and weft.equal(weft.get_rng_state(), drawn)
    assert all(weft.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_measuring_takes_what_the_call_brings() -> None:
    @weft.compile
    def loop(x: Any, n: Any) -> Any:
        return weft.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, (y @ y).tanh()), (weft.tensor(0), x))[1]

    count = random.randint(3, 7)
    (program,) = weft.explain(loop, weft.eye(5), weft.tensor(count)).programs
    assert [k.launches for k in program.kernel_times if "_mm" in k.name or "mm_" in k.name] == [count]


def test_what_cannot_be_run_again_is_not() -> None:
    calls = []

    class Told(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            print(end="")
            calls.append(g.shape)
            return g * 2

    w = weft.ones(3, requires_grad=True)

    @weft.compile
    def step(x: Any) -> Any:
        Told.apply(w * x).sum().backward()

    step(weft.ones(3))
    before = len(calls)
    text = str(weft.explain(step))
    assert len(calls) == before, text


def test_the_last_miss_says_what_changed_from_what_to_what() -> None:
    class Settings:
        scale = 2.0

    settings = Settings()

    @weft.compile
    def f(x: Any, n: int = 1) -> Any:
        return x * settings.scale + n  # here

    x = weft.ones(3)
    f(x)
    assert "last miss" not in str(weft.explain(f))
    f(x.double())
    assert "argument x was a Tensor[float32, 1 dims], is now a Tensor[float64, 1 dims]" in str(weft.explain(f))
    settings.scale = 3.0
    f(x)
    miss = weft.explain(f).misses[-1]
    assert miss == f"{place_of(f.function, '# here')}: settings.scale was 2.0, is now 3.0"
    f(x, n=4)
    assert "the structure of the arguments was (_), is now (_, n=_)" in str(weft.explain(f))


def test_what_runs_outside_of_native_code_has_its_line() -> None:
    def f(x: Any) -> Any:
        return weft.linalg.eigvalsh(x @ x.T) + 1  # here

    explanation = weft.explain(f, weft.eye(3))
    assert f"{place_of(f, '# here')}: aten::linalg_eigh" in str(explanation)
    times = explanation.programs[0].measured
    assert not isinstance(times, str) and times.host > 0


def test_forward_and_backward_of_a_module() -> None:
    model = weft.compile(nn.Linear(3, 2))
    x = weft.ones(5, 3)
    model(x).sum().backward()
    for arguments in ((x,), ()):  # without any: what it ran last
        text = str(weft.explain(model, *arguments))
        assert "forward: " in text and "backward: " in text and "weight" in text


def test_split_functions_tell_where_they_are_cut() -> None:
    def f(x: Any) -> Any:
        y = (x * 2).sin()
        if y.sum().item() > 0:  # here
            y = y + 1
        return (y @ y).exp().sum()

    split = deferred(f)
    for _ in range(5):
        split(weft.ones(8, 8))
    explanation = weft.explain(split)
    assert explanation.kind == "split" and len(explanation.programs) == 2
    assert explanation.breaks == [f"{place_of(f, '# here')}: item() (5 times)"]
    assert "weft.cond" in str(explanation) and any(k.lines for p in explanation.programs for k in p.kernel_times)


def test_split_functions_tell_why_they_are_no_whole_program() -> None:
    def f(x: Any) -> Any:
        y = (x * 2).sin()
        return y * float(np.abs(y.numpy()).max())  # here

    for size, kind in ((4, "operators run one by one"), (1 << 17, "function that runs in parts")):
        split = weft.compile(f, split=True)
        for _ in range(3):
            split(weft.ones(size))
        explanation = weft.explain(split)
        assert any(place_of(f, "# here") in reason for reason in (*explanation.misses, *explanation.breaks))
        assert kind in str(explanation) and bool(explanation.programs) == (size > 4)


def test_lazy_steps_backward_calls_and_scripts() -> None:
    x, w = weft.ones(8, 8), weft.randn(8, 8, requires_grad=True)

    @weft.jit.script
    def scripted(x: weft.Tensor, n: int) -> weft.Tensor:
        for _ in range(n):
            x = (x * 2).tanh() + x.exp() * 3 - x.sin()
        return x

    weft.compiled_autograd.reset()
    for _ in range(4):
        (x.to("lazy") * 2).tanh().sum().item()
        with weft.compiled_autograd.enable():
            (x @ w).tanh().sum().backward()
        scripted(x, 3)
    graph = weft.compiled_autograd.last_graph()
    for about, kind in (
        (weft.lazy, "lazy"), (weft.compiled_autograd, "backward"), (graph, "backward"), (scripted, "script")
    ):
        explanation = weft.explain(about)
        assert explanation.kind == kind
        kernels = [k for p in explanation.programs for k in p.kernel_times]
        assert kernels and any(k.lines.startswith("test_explain.py:") for k in kernels), kind
        assert len(str(explanation).splitlines()) <= 30


def test_what_has_not_run_is_refused_with_a_way() -> None:
    @weft.jit.script
    def never(x: weft.Tensor) -> weft.Tensor:
        return x * 2

    weft.compiled_autograd.reset()
    for about, words in (
        (never, "was not called yet"), (weft.compiled_autograd, "no backward call"), (weft.nn, "is a module"),
        (weft.compile(lambda x: x), "takes arguments"), (weft.compile(nn.Linear(2, 2)), "takes arguments"),
    ):
        with pytest.raises(ArgumentError, match=words):
            weft.explain(about)


def test_a_notebook_shows_a_table(training: Any) -> None:
    step, _ = training
    html = weft.explain(step)._repr_html_()
    assert html.startswith("<div>") and html.count("<tr>") > 3 and "<th>kernel</th>" in html
    assert "step: compiled function" in html and "slowest kernels" not in html
    assert html.count("<") == html.count(">")


def test_a_profiler_at_work_is_not_disturbed(training: Any) -> None:
    step, _ = training
    with weft.profiler.profile() as prof:
        text = str(weft.explain(step))
    assert "not timed: a profiler is at work" in text and not prof.events()


def test_pythons_own_start_is_no_place() -> None:
    code = compile("place = where()", "<frozen runpy>", "exec")
    scope: dict[str, Any] = {"where": user_location}
    exec(code, scope)
    assert str(scope["place"]).startswith("test_explain.py:")


def test_amounts_as_text() -> None:
    assert [duration(s) for s in (2.0, 0.25, 1.5e-3, 2e-5, 1e-7)] == ["2.0 s", "250 ms", "1.5 ms", "20.0 us", "0.1 us"]
    assert [amount(n) for n in (5, 1536, 3 << 20)] == ["5 B", "1.5 KiB", "3.0 MiB"]
    assert short_operators(("aten::mul.Tensor", "aten::mul.Scalar", "aten::_softmax")) == ["mul", "softmax"]
