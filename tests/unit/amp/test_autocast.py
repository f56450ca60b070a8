"""weft.autocast: the precision of each operator as stored results of PyTorch have it (make_torch_values.py), and the
same results in every mode."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from tests.unit.amp.make_torch_values import calls, result
from weft import nn
from weft.amp.cuda import custom_fwd
from weft.support.counters import counters
from weft.utils.checkpoint import checkpoint

RNG = np.random.Generator
STORED = json.loads((Path(__file__).parent / "torch_values.json").read_text())


@pytest.mark.parametrize("kind, dtype", [
    ("float32", "bfloat16"), ("float32", "float16"), ("bfloat16", "bfloat16"),
])
def test_every_call_has_the_precision_and_the_value_that_pytorch_gives(kind: str, dtype: str) -> None:
    wrong = []
    for name, code in calls().items():
        stored = STORED[f"{name} {kind} {dtype}"]
        tensor = result(weft, code, kind, dtype)
        if tensor.dtype is not getattr(weft, stored["dtype"]):
            wrong.append(f"{name}: {tensor.dtype}, stored {stored['dtype']}")
        elif "values" in stored:
            numbers = (tensor.abs() if tensor.is_complex() else tensor).detach().double().reshape(-1).numpy()
            rtol, atol = (4e-3, 1e-3) if (kind, dtype) == ("float32", "float16") else (3e-2, 2e-2)
            if not np.allclose(numbers, stored["values"], rtol=rtol, atol=atol):
                wrong.append(f"{name}: {numbers}, stored {stored['values']}")
    assert not wrong, "\n".join(wrong)


# ---- the same in every mode
class Model(nn.Module):
    """Layers of every list, some of float32 alone between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.conv = nn.Linear(4, 6), nn.Conv1d(6, 6, 3, padding=1)
        self.norm, self.last = nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        h = F.gelu(self.first(x))
        h = weft.cat([self.conv(h.mT).mT, x.sum(-1, keepdim=True).expand(-1, -1, 6)], 1)
        return self.last(self.norm(h)).mean(1)


def step_of(model: nn.Module, dtype: Any) -> Callable[[Any, Any], tuple[Any, ...]]:
    def step(x: Any, target: Any) -> tuple[Any, ...]:
        with weft.autocast("cpu", dtype=dtype):
            logits = model(x)
            with weft.autocast("cpu", enabled=False):
                penalty = (logits.float() @ logits.float().t()).mean()
            loss = F.cross_entropy(logits, target) + 0.1 * penalty
        return loss, logits, *weft.autograd.grad(loss, tuple(model.parameters()))

    return step


@pytest.mark.parametrize("dtype", [weft.bfloat16, weft.float16])
def test_compiled_split_and_deferred_steps_compute_the_same(rng: RNG, dtype: Any) -> None:
    model = Model()
    step = step_of(model, dtype)
    compiled, split = weft.compile(step), weft.compile(step, split=True)
    before = counters.captures
    for size in sorted({2, *map(int, rng.integers(2, 9, 2))}):
        x = weft.from_numpy(rng.normal(size=(size, 5, 4)).astype(np.float32))
        target = weft.from_numpy(rng.integers(0, 3, size))
        expected = step(x, target)
        assert expected[1].dtype is dtype and {e.dtype for e in (expected[0], *expected[2:])} == {weft.float32}
        for mode in (compiled, split):
            for _ in range(2):
                for e, a in zip(expected, mode(x, target), strict=True):
                    assert a.dtype is e.dtype
                    np.testing.assert_allclose(a.detach().double(), e.detach().double(), rtol=2e-2, atol=2e-2)
    assert counters.captures - before <= 3 and "1 program" in repr(compiled)


def test_a_compiled_function_within_a_block_is_another_program(rng: RNG) -> None:
    model, x = Model(), weft.from_numpy(rng.normal(size=(3, 5, 4)).astype(np.float32))
    compiled = weft.compile(model)
    kinds = [(False, weft.bfloat16), (True, weft.bfloat16), (True, weft.float16)]
    for round in range(2):
        before = counters.captures
        for is_on, dtype in kinds:
            with weft.autocast("cpu", dtype=dtype, enabled=is_on):
                out, expected = compiled(x), model(x)
            assert out.dtype is expected.dtype is (dtype if is_on else weft.float32)
            np.testing.assert_allclose(out.detach().double(), expected.detach().double(), rtol=2e-2, atol=2e-2)
        assert counters.captures - before == (3 if round == 0 else 0)


def test_traces_say_their_casts_and_scripts_follow_the_caller(rng: RNG) -> None:
    model, x = Model(), weft.from_numpy(rng.normal(size=(3, 5, 4)).astype(np.float32))

    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: Any) -> Any:
            with weft.autocast("cpu"):
                return self.inner(x) + weft.einsum("bij,bkj->bi", x, x)[:, :3]

    module = Cast()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the trace, run again without autocast, gives the same
        trace = weft.jit.trace(module, (x,))
    assert weft.equal(trace(x), module(x)) and str(trace.inlined_graph).count("dtype=bf16") >= 6
    with weft.no_grad():
        model.last.weight.mul_(2.0)
    assert weft.equal(trace(x), module(x))

    @weft.jit.script
    def product(a: weft.Tensor) -> weft.Tensor:
        return a @ a.t() + 1.0

    for _ in range(3):
        assert product(x[0]).dtype is weft.float32
        with weft.autocast("cpu"):
            assert product(x[0]).dtype is weft.bfloat16


def test_lazy_tensors_transforms_and_double_backward(rng: RNG) -> None:
    x = weft.from_numpy(rng.normal(size=(3, 4)).astype(np.float32))

    def f(a: Any) -> Any:
        return (a @ a.t()).float().square().sum()

    def cast(a: Any) -> Any:
        return weft.autocast("cpu")(f)(a)

    exact, = weft.autograd.grad(f(leaf := x.clone().requires_grad_()), leaf)
    with weft.autocast("cpu"):
        around = [weft.func.grad(f)(x), weft.func.vmap(lambda a: a @ a)(x), weft.func.jvp(f, (x,), (x,))[1]]
    inside = [weft.func.grad(cast)(x), weft.func.vmap(weft.autocast("cpu")(lambda a: a @ a))(x),
              weft.func.jvp(cast, (x,), (x,))[1]]
    for a, b, e in zip(around, inside, [exact, x.square().sum(1), (exact * x).sum()], strict=True):
        assert a.dtype is b.dtype
        np.testing.assert_allclose(a.double(), e.double(), rtol=5e-2, atol=5e-1)
        np.testing.assert_allclose(b.double(), e.double(), rtol=5e-2, atol=5e-1)
    lazy = cast(x.to("lazy"))
    assert lazy.dtype is weft.float32 and weft.allclose(lazy.cpu(), cast(x), rtol=1e-2)
    gradient, = weft.autograd.grad(cast(leaf), leaf, create_graph=True)
    second, = weft.autograd.grad(gradient.square().sum(), leaf)
    first, = weft.autograd.grad(f(leaf), leaf, create_graph=True)
    expected, = weft.autograd.grad(first.square().sum(), leaf)
    assert second.dtype is weft.float32
    assert float((second - expected).norm() / expected.norm()) < 0.1


# ---- blocks
def test_blocks_nest_and_are_left_as_they_were_entered() -> None:
    x = weft.ones(2, 2)
    kinds = []
    with weft.autocast("cpu") as outer:
        kinds.append((x @ x).dtype)
        with weft.autocast("cpu", enabled=False):
            kinds.append((x @ x).dtype)
            with weft.autocast("cpu", dtype=weft.float16):
                kinds.append((x @ x).dtype)
                assert weft.get_autocast_dtype("cpu") is weft.float16 and weft.is_autocast_enabled("cpu")
            assert not weft.is_autocast_cpu_enabled() and weft.get_autocast_cpu_dtype() is weft.bfloat16
        kinds.append((x @ x).dtype)
        with pytest.raises(ZeroDivisionError), outer:
            _ = 1 / 0
        assert (x.double() @ x.double()).dtype is weft.float64 and (x.long() @ x.long()).dtype is weft.int64
        y = weft.zeros(2, 2)
        assert y.addmm_(x, x) is y and y.dtype is weft.float32
        assert weft.mm(x, x).add_(1.0).dtype is weft.bfloat16
    assert kinds == [weft.bfloat16, weft.float32, weft.float16, weft.bfloat16]
    assert (x @ x).dtype is weft.float32 and not weft.is_autocast_enabled("cpu")

    @weft.autocast("cpu", dtype=weft.float16)
    def decorated(a: Any) -> Any:
        """Says so."""
        return a @ a if a.ndim == 2 else decorated(a[0])

    assert decorated(x[None]).dtype is weft.float16 and decorated.__doc__ == "Says so."
    weft.set_autocast_enabled("cpu", True)
    weft.set_autocast_dtype("cpu", weft.float16)
    assert (x @ x).dtype is weft.float16
    weft.set_autocast_cpu_enabled(False)
    weft.set_autocast_cpu_dtype(weft.bfloat16)
    assert (x @ x).dtype is weft.float32 and weft.amp.is_autocast_available("cpu")


def test_devices_and_dtypes_that_are_not_there() -> None:
    x = weft.ones(2, 2)
    for block in (lambda: weft.autocast("cuda"), lambda: weft.autocast("cpu", dtype=weft.float64)):
        with pytest.warns(UserWarning, match=r"Disabling"):
            cast = block()
        with cast:
            assert (x @ x).dtype is weft.float32
    with weft.autocast("cpu"), weft.autocast("cuda", enabled=False):
        assert (x @ x).dtype is weft.bfloat16
    assert not weft.is_autocast_enabled() and weft.get_autocast_gpu_dtype() is weft.float16
    for call in (lambda: weft.autocast("abacus"), lambda: weft.is_autocast_enabled("abacus"),
                 lambda: weft.amp.custom_fwd(device_type="abacus"), lambda: weft.autocast(weft.float16)):
        with pytest.raises(weft.WeftError, match="device"):
            call()
    with weft.autocast("cpu"), pytest.raises(weft.WeftError, match="no widest of bfloat16, float16"):
        weft.cat([x.half(), x.bfloat16()])


def test_casts_of_weights_are_kept_until_the_outermost_block_ends(rng: RNG) -> None:
    weight = nn.Parameter(weft.from_numpy(rng.normal(size=(3, 3)).astype(np.float32)))
    x = weft.from_numpy(rng.normal(size=(2, 3)).astype(np.float32))

    def operand(y: Any) -> Any:
        return y.grad_fn.next_functions[1][0]

    with weft.autocast("cpu"):
        with weft.autocast("cpu"):
            first = x @ weight
        second = x @ weight
        assert operand(first) is operand(second)
        with weft.no_grad():
            assert (x @ weight).grad_fn is None
        third = x @ weight
        with weft.no_grad():
            weight.mul_(2.0)
        changed = x @ weight
        assert operand(third) is operand(first) is not operand(changed) and weft.equal(changed, 2 * first)
    with weft.autocast("cpu", cache_enabled=False):
        assert operand(x @ weight) is not operand(x @ weight) and not weft.is_autocast_cache_enabled()
    assert weft.is_autocast_cache_enabled()
    (first + second).float().sum().backward()
    np.testing.assert_allclose(weight.grad, 2 * x.sum(0)[:, None].expand(3, 3), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_runs_again_as_it_ran_first(rng: RNG, use_reentrant: bool) -> None:
    layers = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    x = weft.from_numpy(rng.normal(size=(4, 3)).astype(np.float32)).requires_grad_()
    kinds: list[Any] = []

    def block(h: Any) -> Any:
        kinds.append(weft.is_autocast_enabled("cpu"))  # (the second run ends early, once all is there again)
        return layers(h)

    def run(is_kept: bool) -> list[Any]:
        with weft.autocast("cpu"):
            out = block(x) if is_kept else checkpoint(block, x, use_reentrant=use_reentrant)
        layers.zero_grad()
        x.grad = None
        out.float().square().sum().backward()
        return [p.grad.clone() for p in (x, *layers.parameters())]

    for a, b in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-2, atol=2e-2)
    assert kinds == [True] * 3 and not weft.is_autocast_enabled("cpu")


def test_custom_functions_say_how_they_run(rng: RNG) -> None:
    seen: list[Any] = []

    class Follows(weft.autograd.Function):
        @staticmethod
        @weft.amp.custom_fwd(device_type="cpu")
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @weft.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            a, b = ctx.saved_tensors
            seen.append((weft.is_autocast_enabled("cpu"), (g @ b.t()).dtype))
            return g @ b.t(), a.t() @ g

    class InFloat32(weft.autograd.Function):
        @staticmethod
        @weft.amp.custom_fwd(device_type="cpu", cast_inputs=weft.float32)
        def forward(ctx: Any, a: Any, more: Any) -> Any:
            seen.append((weft.is_autocast_enabled("cpu"), a.dtype, more[0].dtype))
            return a @ a

        @staticmethod
        @weft.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            return g, None

    a, b = (weft.from_numpy(rng.normal(size=(3, 3)).astype(np.float32)).requires_grad_() for _ in range(2))
    for is_on in (True, False):
        with weft.autocast("cpu", enabled=is_on):
            out = Follows.apply(a, b)
            kept = InFloat32.apply(a.bfloat16() if is_on else a, [b.detach().half()])
        out.float().sum().backward()
        assert out.dtype is (weft.bfloat16 if is_on else weft.float32) and kept.dtype is weft.float32
    assert seen == [
        (False, weft.float32, weft.float32), (True, weft.bfloat16), (False, weft.float32, weft.float16),
        (False, weft.float32),
    ]
    old = custom_fwd(lambda ctx, x: x + 1)  # PyTorch's older name, for GPUs

    class Context:
        pass

    assert old(Context(), 1) == 2


def test_a_scaler_trains_a_model_in_half_precision(rng: RNG) -> None:
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer, scaler = weft.optim.SGD(model.parameters(), lr=0.1), weft.amp.GradScaler("cpu", init_scale=128.0)
    x = weft.from_numpy(rng.normal(size=(32, 4)).astype(np.float32))
    y = x.sum(1, keepdim=True)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        with weft.autocast("cpu", dtype=weft.float16):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss))
    assert losses[-1] < 0.2 * losses[0] and all(p.dtype is weft.float32 for p in model.parameters())


def test_threads_have_their_own() -> None:
    from concurrent.futures import ThreadPoolExecutor

    x = weft.ones(2, 2)
    with weft.autocast("cpu"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: (x @ x).dtype).result() is weft.float32 and (x @ x).dtype is weft.bfloat16


def test_a_compiled_function_that_leaves_autocast_changed_runs_as_it_is_written() -> None:
    x = weft.ones(2, 2)

    @weft.compile
    def leaves(a: Any) -> Any:
        weft.set_autocast_enabled("cpu", True)
        return a @ a

    assert leaves(x).dtype is weft.bfloat16 and weft.is_autocast_enabled("cpu")
    weft.set_autocast_enabled("cpu", False)
    assert (x @ x).dtype is weft.float32
