"""A draw moves its generator on at each call, wherever it stands: in composites, custom Functions, hooks, branches and
loops of programs, traces and scripts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft
from weft import Generator, Tensor
from weft.support.errors import CaptureError, WeftError

F = weft.nn.functional
FIRST, SECOND = Generator(), Generator()


class Noisy(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * weft.bernoulli(weft.full_like(x, 0.7))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * weft.bernoulli(weft.full_like(g, 0.5)) + weft.rand_like(g)


def gradient(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def step(x: Tensor) -> Tensor:
        w = x.detach().clone().requires_grad_()
        return weft.autograd.grad(function(w).sum(), w)[0]

    return step


def hooked(w: Tensor) -> Tensor:
    y = w * 2
    y.register_hook(lambda g: g * weft.bernoulli(weft.full_like(g, 0.5)))
    return y.sin()


def checkpointed(keep: bool) -> Callable[[Tensor], Tensor]:
    def region(w: Tensor) -> Tensor:
        return F.dropout(w, 0.5).sin() * weft.bernoulli(w.sigmoid()) * weft.rand_like(w).cos()

    return lambda w: weft.utils.checkpoint.checkpoint(region, w, use_reentrant=False, preserve_rng_state=keep)


def generators(x: Tensor) -> Tensor:
    n = x.shape[0]
    return (
        weft.rand(n, generator=FIRST) + weft.bernoulli(weft.full((n,), 0.5), generator=SECOND) + weft.rand(n)
        + weft.randperm(n, generator=FIRST) + weft.multinomial(weft.rand(4, generator=SECOND), 2, generator=FIRST).sum()
    )


def states(x: Tensor) -> Tensor:
    state = weft.get_rng_state()
    first = weft.rand_like(x)
    weft.set_rng_state(state)
    held = FIRST.get_state()
    third = weft.rand(x.shape, generator=FIRST)
    FIRST.set_state(held)
    with weft.random.fork_rng():
        weft.manual_seed(4)
        aside = weft.rand_like(x)
    SECOND.set_state(FIRST.get_state())
    return weft.stack([
        first, weft.rand_like(x), third, aside, weft.rand(x.shape, generator=SECOND),
        weft.rand(x.shape, generator=Generator().manual_seed(3)),
    ])


def branch(x: Tensor) -> Tensor:
    y = weft.cond(
        x.sum() > -1, lambda: x * weft.rand(2, generator=FIRST).sum(), lambda: x * weft.bernoulli(x.sigmoid())
    )
    return y + weft.rand_like(x) + weft.rand(1, generator=FIRST)


def branch_of_states(x: Tensor) -> Tensor:
    y = weft.cond(x.sum() > -1, lambda: x * weft.rand(2).sum(), lambda: x * 1)
    state = weft.get_rng_state()
    first = weft.rand_like(x)
    weft.set_rng_state(state)
    with weft.random.fork_rng():
        aside = weft.rand(3).sum()
    return y + first + weft.rand_like(x) + aside


def scanned(w: Tensor) -> Tensor:
    carry, rows = weft.scan(
        lambda c, r: (F.dropout(c * r, 0.3) + weft.rand(()), r * weft.randn(2).sum() + c), w.sum(), w
    )
    return rows * weft.rand_like(w) + carry


def nested(w: Tensor) -> Tensor:
    def step(c: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        chosen = weft.cond(r > 0, lambda: c * weft.rand(()) + F.dropout(r, 0.3), lambda: c * 1)
        _, looped = weft.while_loop(
            lambda i, a: i < 2, lambda i, a: (i + 1, a + weft.rand((), generator=FIRST)), (weft.tensor(0), r)
        )
        return chosen, looped

    return weft.scan(step, w.sum(), w)[1] * weft.rand(())


def repeated(x: Tensor) -> Tensor:
    return weft.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a * weft.bernoulli(weft.full_like(a, 0.5)) + weft.rand_like(a)),
        (weft.tensor(0), x),
    )[1]


def noisy_scan(w: Tensor) -> Tensor:
    carry, rows = weft.scan(lambda c, r: (Noisy.apply(c) * 0.5, c + F.dropout(r, 0.3)), w.sum(), w)
    return rows * weft.rand_like(w) + carry


def noisy_rows(w: Tensor) -> Tensor:
    return weft.scan(lambda c, r: (Noisy.apply(c) * 0.5, c + F.dropout(r, 0.3)), w.sum(), w)[1] * weft.rand_like(w)


def noisy_branch(w: Tensor) -> Tensor:
    return weft.cond(w[-1] > -9, lambda a: Noisy.apply(a) * weft.rand(1), lambda a: a * 1, (w,)) * weft.rand_like(w)


STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "bernoulli of probabilities": lambda x: weft.bernoulli(x.sigmoid()) * weft.rand_like(x),
    "bernoulli with p": lambda x: weft.bernoulli(x, 0.3) + weft.rand_like(x),
    "bernoulli_": lambda x: x.clone().bernoulli_(0.3) + x.clone().bernoulli_(x.sigmoid()),
    "bernoulli(out=)": lambda x: weft.bernoulli(x.sigmoid(), out=weft.empty_like(x)),
    "poisson": lambda x: weft.poisson(x.abs() * 30) + weft.binomial(weft.full_like(x, 40.0), x.sigmoid()),
    "wide integers": lambda x: weft.randint(0, 2**40, (x.shape[0],)) // 2**20,
    "a custom Function": gradient(lambda w: Noisy.apply(w) * weft.rand_like(w)),
    "a hook": gradient(lambda w: hooked(w) * F.dropout(w, 0.5)),
    "a checkpoint": gradient(checkpointed(True)),
    "a checkpoint that draws anew": gradient(checkpointed(False)),
    "func.grad": lambda x: weft.func.grad(lambda v: (v * weft.bernoulli(v.sigmoid())).sum())(x),
    "vmap": lambda x: weft.vmap(lambda v: v * weft.bernoulli(v.sigmoid()), randomness="different")(x),
    "several generators": generators,
    "states": states,
    "a branch": branch,
    "states behind a branch": branch_of_states,
    "a scan": gradient(scanned),
    "a while_loop": repeated,
    "blocks within blocks": gradient(nested),
    "a scan whose backward draws": gradient(noisy_scan),
    "a scan whose backward draws at some steps": gradient(noisy_rows),
    "a branch whose backward draws": gradient(noisy_branch),
}
SIZES = (5, 5, 3, 8)


def calls(function: Callable[[Tensor], Tensor], device: str = "cpu") -> list[Any]:
    """What four calls give, and where they leave the generators."""
    log = []
    for g, seed in ((weft.default_generator, 7), (FIRST, 8), (SECOND, 9)):
        g.manual_seed(seed)
    for number, n in enumerate(SIZES):
        x = weft.linspace(-1, 1 - number / 2, n).to(device)
        if number == 2:
            weft.manual_seed(11)
            FIRST.set_state((3, 17))
        values = function(x).detach().cpu().tolist()
        log.append((values, *(g.place()[::2] for g in (weft.default_generator, FIRST, SECOND))))
    return log


def alike(found: list[Any], expected: list[Any]) -> None:
    for here, there in zip(found, expected, strict=True):
        assert here[0] == pytest.approx(there[0], rel=1e-5, abs=1e-6) if not isinstance(there[0][0], list) else (
            [pytest.approx(row, rel=1e-5, abs=1e-6) for row in there[0]] == here[0]
        )
        assert here[1:] == there[1:]


@pytest.mark.parametrize("options", [{}, {"backend": "interpret"}, {"split": True}], ids=str)
@pytest.mark.parametrize("name", STEPS)
def test_each_call_draws_anew_as_eager_mode_does(name: str, options: dict[str, Any]) -> None:
    alike(calls(weft.compile(STEPS[name], **options)), calls(STEPS[name]))


@pytest.mark.parametrize("name", ["bernoulli of probabilities", "bernoulli_", "a checkpoint", "func.grad", "a hook"])
def test_lazy_tensors_draw_as_eager_ones(name: str) -> None:
    alike(calls(STEPS[name], "lazy"), calls(STEPS[name]))


def test_a_program_serves_every_seed_and_size() -> None:
    compiled = weft.compile(states)
    calls(compiled)
    assert not compiled.misses


def test_a_branch_that_draws_is_captured_once() -> None:
    compiled = weft.compile(branch)
    calls(compiled)
    assert not compiled.misses


def test_a_scan_of_no_rows_draws_nothing() -> None:
    weft.manual_seed(3)
    weft.scan(lambda c, r: (c, r * weft.rand(())), 0.0, weft.ones(0))
    assert weft.default_generator.place()[::2] == (3, 0)


def test_the_gradient_of_bernoulli_is_zero() -> None:
    x, p = weft.rand(3).requires_grad_(), weft.rand(3).requires_grad_()
    assert weft.autograd.grad(weft.bernoulli(x).sum(), x)[0].tolist() == [0.0] * 3
    y = x * 2
    y.bernoulli_(p)
    assert [g.tolist() for g in weft.autograd.grad(y.sum(), (x, p))] == [[0.0] * 3] * 2
    assert weft.poisson(x).grad_fn.name() == "PoissonBackward0"


def test_a_capture_that_fails_leaves_generators_alone() -> None:
    class Stop(Exception):
        pass

    def fails(x: Tensor) -> Tensor:
        weft.manual_seed(5)
        weft.cond(x.sum() > 0, lambda: weft.rand(3), lambda: weft.rand(3) * 2)
        weft.bernoulli(weft.full_like(x, 0.5))
        raise Stop

    def asks(x: Tensor) -> float:
        return (weft.bernoulli(weft.full_like(x, 0.5)) + weft.rand_like(x)).sum().item()

    weft.manual_seed(3)
    for step, error in ((fails, Stop), (asks, CaptureError)):
        with pytest.raises(error):
            weft.compile(step)(weft.ones(3))
        assert weft.default_generator.place()[::2] == (3, 0)


TRACED: dict[str, Callable[[Tensor], Tensor]] = {
    "generators": generators,
    "the default generator by name": lambda x: x * weft.rand(x.shape, generator=weft.default_generator),
    "in-place forms": lambda x: (
        x.clone().bernoulli_(0.3) + x.clone().bernoulli_(x.sigmoid()) + x.clone().random_(2, 9) + x.clone().random_(5)
    ),
}


@pytest.mark.parametrize("name", TRACED)
def test_a_trace_draws_anew(name: str) -> None:
    traced = weft.jit.trace(TRACED[name], (weft.ones(5),), check_trace=False)
    alike(calls(traced), calls(TRACED[name]))


def scripted(x: Tensor) -> Tensor:
    return weft.rand(x.shape[0], generator=FIRST) + weft.bernoulli(x.sigmoid(), generator=SECOND) + x.bernoulli(0.5)


def test_a_script_draws_from_a_generator_that_it_knows(tmp_path: Path) -> None:
    program = weft.jit.script(scripted)
    expected = calls(scripted)
    alike(calls(program), expected)
    alike(calls(weft.compile(lambda x: program(x))), expected)
    with pytest.raises(WeftError, match="a file holds no generators"):
        weft.jit.save(program, tmp_path / "program.weft")


@pytest.mark.parametrize("step", [
    lambda x: x * weft.rand(x.shape, generator=weft.manual_seed(3)), lambda x: x * weft.get_rng_state().sum(),
    lambda x: x * weft.rand(1, generator=Generator().manual_seed(2)),
])  # fmt: skip
def test_a_trace_refuses_what_is_not_a_draw(step: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(WeftError, match=r"each_draw\.py:\d+: weft.jit.trace: the function .* generator"):
        weft.jit.trace(step, (weft.ones(5),), check_trace=False)


def test_lazy_is_a_device_of_generators_from_the_beginning() -> None:
    assert weft.Generator(device="lazy").manual_seed(3).place()[::2] == (3, 0)


def test_wide_ranges_of_integers() -> None:
    low, high = -(2**63), 2**63 - 1
    for make in (
        lambda: weft.randint(low, high, (1000,)), lambda: weft.zeros(1000, dtype=weft.int64).random_(low, None),
        lambda: weft.randint(-(2**62), 2**62, (1000,)), lambda: weft.zeros(1000, dtype=weft.int64).random_(),
    ):
        weft.manual_seed(0)
        values = make().tolist()
        weft.manual_seed(0)
        assert weft.compile(make)().tolist() == values and len(set(values)) == 1000
        middle = (min(values) + max(values)) / 2
        assert 400 < sum(v > middle for v in values) < 600 and max(values) - min(values) > 2**62


@functools.cache
def own_noise() -> Callable[[Tensor], Tensor]:
    """A step with an operator of the user's that draws (made once tests run: the catalogue's tests list what is there).
    """

    @weft.library.custom_op("draws::noise", mutates_args=(), effect="random")
    def noise(x: Tensor) -> Tensor:
        """Uniform numbers."""
        return weft.rand_like(x)

    noise.register_fake(weft.empty_like)
    noise.register_autograd(lambda ctx, g: g * noise(g))
    return gradient(lambda w: noise(w) * w + weft.rand_like(w))


@pytest.mark.parametrize("options", [{}, {"backend": "interpret"}, {"split": True}], ids=str)
def test_operators_of_users_draw_at_their_place(options: dict[str, Any]) -> None:
    alike(calls(weft.compile(own_noise(), **options)), calls(own_noise()))


def test_operators_of_users_draw_at_their_place_on_lazy_tensors() -> None:
    alike(calls(own_noise(), "lazy"), calls(own_noise()))


def test_a_backward_that_callers_run_draws_when_it_is_run() -> None:
    def step(x: Tensor, forward: Callable[[Tensor], Tensor]) -> Tensor:
        w = x.detach().clone().requires_grad_()
        loss = forward(w).sum()
        (loss * weft.rand(())).backward()
        assert w.grad is not None
        return w.grad

    def forward(w: Tensor) -> Tensor:
        return Noisy.apply(w) * weft.rand_like(w)  # type: ignore[no-any-return]

    compiled = weft.compile(forward)
    alike(calls(lambda x: step(x, compiled)), calls(lambda x: step(x, forward)))
    assert "draws random numbers" in compiled.misses[-1]


def test_a_generator_made_in_a_call_stays_there() -> None:
    with pytest.raises(CaptureError, match="returns a Generator"):
        weft.compile(lambda x: (x + 1, Generator().manual_seed(2)))(weft.ones(2))
