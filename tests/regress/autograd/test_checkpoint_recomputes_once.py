"""A checkpointed region runs again once in each backward call, in every mode: what it counts and its statistics are
those of eager mode."""

from typing import Any

import pytest

import weft
from weft.utils.checkpoint import checkpoint, set_checkpoint_early_stop

SIZES = (4, 4, 5, 4)


def _steps(mode, step):
    if mode == "split":
        return weft.compile(step, split=True)
    if mode == "compiled":
        return weft.compile(step)
    if mode != "compiled autograd":
        return step

    def enabled(x):
        with weft.compiled_autograd.enable():
            return step(x)

    return enabled


@pytest.mark.parametrize("mode", ["lazy", "split", "compiled", "compiled autograd"])
@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("backwards", [1, 2])
def test_counts_of_nested_regions(mode, early_stop, backwards):
    def run(mode):
        runs = []

        def inner(x):
            runs.append("inner")
            return (x.sin().exp() * x).tanh()

        def outer(x):
            runs.append("outer")
            y = checkpoint(inner, x.cos() * x, use_reentrant=False)
            runs.append("behind")
            return y.exp() * 2

        def step(x):
            with set_checkpoint_early_stop(early_stop):
                loss = checkpoint(outer, x, use_reentrant=False).sum()
                for again in range(backwards):
                    loss.backward(retain_graph=again < backwards - 1)

        run_step, gradients = _steps(mode, step), []
        for n in SIZES:
            x = weft.linspace(-1, 1, n, device="lazy" if mode == "lazy" else None).requires_grad_()
            run_step(x)
            gradients += x.grad.tolist()
        return runs, gradients

    (runs, gradients), (expected_runs, expected) = run(mode), run("eager")
    assert runs == expected_runs and gradients == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("mode", ["lazy", "split", "compiled", "compiled autograd"])
def test_statistics_of_batch_norm(mode):
    def run(mode):
        norm = weft.nn.BatchNorm1d(3)
        if mode == "lazy":
            norm.to("lazy")

        def step(x):
            checkpoint(lambda x: norm(x).tanh() * x, x, use_reentrant=False).sum().backward()

        run_step = _steps(mode, step)
        for n in SIZES:
            run_step(weft.arange(3.0 * n, device="lazy" if mode == "lazy" else None).reshape(n, 3).requires_grad_())
        return [norm.num_batches_tracked.item(), *norm.running_mean.tolist()]

    assert run(mode) == pytest.approx(run("eager"))


def test_hooks_on_saved_tensors_of_lazy_steps_run_once_for_each():
    calls = []

    def unpack(x):
        calls.append(x.shape)
        return x

    for n in SIZES:
        x = weft.ones(n, device="lazy").requires_grad_()
        with weft.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
            y = (x.sin() * x).exp()
        y.sum().backward()
    assert calls == [(n,) for n in SIZES for _ in range(4)]


class Doubled(weft.Tensor):
    """A subclass with a rule: its sines count double."""

    @classmethod
    def __weft_function__(cls, func, types, args=(), kwargs=None):
        out = super().__weft_function__(func, types, args, kwargs)
        return (out.as_subclass(weft.Tensor) * 2).as_subclass(cls) if func.__name__ == "sin" else out


def test_a_region_within_a_region_gets_tensors_of_the_class_that_it_had():
    """What hooks on saved tensors give back is plain: the inner region ran again without the rule."""

    def region(a):
        return a.sin() * a

    def outer(a):
        return checkpoint(region, a * 0.5, use_reentrant=False).cos()

    def gradients(call):
        x = weft.tensor([0.3, 1.7, -0.4], dtype=weft.float64).requires_grad_()
        out = call(x.as_subclass(Doubled))
        out.sum().backward(retain_graph=True)  # a method of the class: its rule is not asked for what it calls
        return x.grad, weft.autograd.grad(out.as_subclass(weft.Tensor).sum(), x)[0]

    plain = gradients(lambda a: region(a * 0.5).cos())
    weft.testing.assert_close(gradients(lambda a: checkpoint(outer, a, use_reentrant=False)), plain)


@pytest.mark.parametrize("split", [False, True])
def test_a_compiled_second_run_ends_where_an_eager_one_does(split: bool) -> None:
    def states(compiled: bool) -> list[Any]:
        generator = weft.Generator().manual_seed(3)
        w = weft.tensor(0.7, requires_grad=True)

        def body(x: weft.Tensor) -> weft.Tensor:
            y = x * w + weft.rand(x.shape, generator=generator) * x
            return y + weft.bernoulli(weft.full_like(x, 0.5), generator=generator)  # nothing behind it is saved

        def step(x: weft.Tensor) -> weft.Tensor:
            x = x.detach().requires_grad_()
            weft.utils.checkpoint.checkpoint(body, x, use_reentrant=False).sum().backward()
            return x.grad

        run = weft.compile(step, split=split) if compiled else step
        found: list[Any] = []
        for size in (5, 5, 3, 4):
            found += [run(weft.linspace(-1.0, 1.0, size)).tolist(), list(generator.place()[::2])]
        return found

    for ours, theirs in zip(states(True), states(False), strict=True):
        assert ours == pytest.approx(theirs)
