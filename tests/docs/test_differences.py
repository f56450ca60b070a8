"""docs/differences.md: each line of the page has a test here, and each test a line there."""

from __future__ import annotations

import builtins
import contextlib
import copy
import datetime
import decimal
import functools
import gc
import hashlib
import inspect
import io
import itertools
import json
import math
import os
import pickle
import queue
import random
import re
import sys
import threading
import time
import types
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.nn import functional as F
from weft.support.errors import CaptureError

PAGE = Path(__file__).resolve().parents[2] / "docs/differences.md"
RNG = np.random.Generator


def parameter(rng: RNG, *shape: int) -> Any:
    return weft.nn.Parameter(weft.from_numpy(rng.normal(size=shape)))


def test_every_line_has_a_test() -> None:
    named = set(re.findall(r"`(\w+)`[,)]", " ".join(re.findall(r"\((`[^)]*`)\)", PAGE.read_text(encoding="utf-8")))))
    named |= {
        n for group in re.findall(r"\(((?:`\w+`(?:, )?)+)\)\n", PAGE.read_text(encoding="utf-8"))
        for n in re.findall(r"`(\w+)`", group)
    }
    tests = {name.removeprefix("test_") for name in globals() if name.startswith("test_")} - {"every_line_has_a_test"}
    assert named == tests


# ---- everywhere
RAN: list[int] = []


class RunsWhenLoaded:
    def __reduce__(self) -> Any:
        return RAN.append, (1,)


def test_only_the_cpu() -> None:
    with pytest.raises((RuntimeError, ValueError), match="cuda"):
        weft.zeros(2, device="cuda")
    assert weft.device("cuda:1").index == 1 and weft.cuda.device_count() == 0
    assert not any(hasattr(weft, name) for name in ("quantize_per_tensor", "nested"))


def test_tracebacks_without_own_lines(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        weft.ones(2, 3) @ weft.ones(2, 3)

    for words, shown in (("", False), ("frames", True)):
        with weft.knobs(debug=words), pytest.raises(RuntimeError) as caught:
            fails()
        with weft.knobs(debug=words):
            sys.excepthook(caught.type, caught.value, caught.tb)
        text = capsys.readouterr().err
        assert "in fails" in text and "During handling" not in text
        assert (os.path.join("weft", "layers") in text) is shown
    assert any("weft" in str(entry.path) for entry in caught.traceback[1:])


def test_twelve_dtypes() -> None:
    found = {v for n in dir(weft) if type(v := getattr(weft, n, None)) is weft.dtype}
    integers, floats = (
        {weft.int8, weft.int16, weft.int32, weft.int64}, {weft.float16, weft.bfloat16, weft.float32, weft.float64}
    )
    assert found == {weft.bool, weft.uint8, weft.complex64, weft.complex128} | integers | floats
    for named in (weft.uint16, weft.uint32, weft.uint64, weft.complex32, weft.float8_e4m3fn):
        assert isinstance(named, weft.dtype) and (weft.iinfo if "uint" in str(named) else weft.finfo)(named).bits < 65
        for use in (lambda d=named: weft.zeros(2, dtype=d), lambda d=named: weft.ones(2).to(d)):
            with pytest.raises(NotImplementedError, match="weft has no tensors of"):
                use()
    assert weft.finfo(weft.float32).dtype is weft.float32
    for kind in (np.uint16, np.uint32, np.uint64):
        with pytest.raises(weft.WeftError, match="supported types"):
            weft.from_numpy(np.ones(2, kind))
    with pytest.raises(RuntimeError):
        weft.complex(weft.ones(2).half(), weft.ones(2).half())


def test_texts_for_devices() -> None:
    x = weft.ones(1, 2, 3, 4).to(memory_format="channels_last")
    assert (
        isinstance(x.device, str) and x.device == "cpu" and x.layout == "weft.strided"
        and x.is_contiguous(memory_format="channels_last")
    )


def test_not_there() -> None:
    with pytest.raises(weft.WeftError, match="no backend 'nccl'"):
        weft.distributed.init_process_group("nccl")
    with pytest.raises(weft.WeftError, match="init_process_group"):
        weft.nn.parallel.DistributedDataParallel(weft.nn.Linear(1, 1))
    norm, images = weft.nn.SyncBatchNorm(3), weft.ones(2, 3, 4, 4)
    assert weft.equal(norm(images), weft.nn.BatchNorm2d(3)(images))
    with pytest.raises(FileNotFoundError, match="downloads nothing"):
        weft.hub.load_state_dict_from_url("https://example.org/model.pth", model_dir="nowhere")


def test_questions_of_others() -> None:
    def asked(x: weft.Tensor) -> weft.Tensor:
        return x + weft.compiler.is_compiling()

    x = weft.ones(2)
    assert weft.equal(asked(x), x) and weft.equal(weft.compile(asked)(x), x + 1)
    assert weft.equal(weft.compile(asked, split=True)(x), x + 1)
    aside = weft.compiler.disable(asked)
    with pytest.raises(weft.WeftError, match=r"compiler\.disable"):
        weft.compile(lambda x: aside(x))(x)
    assert weft.compiler.allow_in_graph(asked) is asked and weft._dynamo.mark_dynamic(x, 0) is None
    for device in (weft.xpu, weft.mps, weft.mtia, weft.accelerator):
        assert not device.is_available()
        with pytest.raises(weft.WeftError, match="CPU only"):
            device.current_stream()
    with weft.serialization.safe_globals([dict]):
        assert weft.serialization.get_safe_globals() == [dict]


def test_array_api(rng: RNG) -> None:
    x = weft.from_numpy(rng.normal(size=(2, 3)))
    assert weft.equal(weft.permute_dims(x, (1, 0)), x.T) and weft.equal(weft.sum(x, axis=0), x.sum(0))
    assert weft.zeros(shape=(2,)).shape == (2,) and weft.equal(weft.maximum(x, 0), weft.relu(x))
    assert weft.all(True).item() and weft.result_type(weft.int8, x, 1) is weft.float64
    assert "axis" in inspect.signature(weft.sum).parameters
    xp = x.__array_namespace__()
    wide = xp.asarray(float("inf"), dtype=xp.float64)
    assert xp.add(xp.ones(2), wide).dtype is xp.float64 and (xp.ones(2) + wide).dtype is weft.float32
    assert xp.sort(x).shape == x.shape and xp.equal(x, x).all() and xp.floor_divide(wide, 2).item() == float("inf")


def test_random_numbers(rng: RNG) -> None:
    seed, size = int(rng.integers(2**31)), int(rng.integers(5, 3000))
    weft.manual_seed(0)
    assert float(weft.rand(1)[0]) != pytest.approx(0.49625658988952637)  # PyTorch's first number of seed 0
    draws = []
    for run in (lambda: (
        weft.rand(size), weft.randn(size)
    ), *(weft.compile(lambda: (weft.rand(size), weft.randn(size)), backend=b) for b in ("interpret", "llvm"))):
        weft.manual_seed(seed)
        draws.append([t.numpy() for t in run()])
    for other in draws[1:]:
        np.testing.assert_array_equal(draws[0], other)


def test_integers_divided_by_zero(rng: RNG) -> None:
    x = weft.from_numpy(rng.integers(-9, 9, size=5))
    for run in (lambda x: (x // 0, x % 0), weft.compile(lambda x: (x // 0, x % 0))):
        assert [t.tolist() for t in run(x)] == [[0] * 5, [0] * 5]


def test_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(weft.log(weft.tensor(-1.0)).item())
        assert np.isinf((weft.tensor(1.0) / 0).item())
        out = weft.empty(3)
        weft.add(weft.ones(2, 2), 1, out=out)
        assert out.shape == (2, 2)


def test_accumulate_grad_stays(rng: RNG) -> None:
    p, seen = parameter(rng, 3), []
    p.expand_as(p).grad_fn.next_functions[0][0].register_hook(lambda *_: seen.append(1))
    p.sum().backward()
    p.sum().backward()
    assert len(seen) == 2


def test_shared_step(rng: RNG) -> None:
    a, b = parameter(rng, 2), parameter(rng, 3)
    optimizer = weft.optim.AdamW([a, b])
    (a.sum() + b.sum()).backward()
    optimizer.step()
    assert optimizer.state[a]["step"] is optimizer.state[b]["step"]
    a.grad = None
    optimizer.step()
    assert [float(optimizer.state[p]["step"]) for p in (a, b)] == [1, 2]


def test_views_under_no_grad(rng: RNG) -> None:
    p = parameter(rng, 3)
    with weft.no_grad():
        v = p[:2]
    assert not v.requires_grad and (v * 2.0).grad_fn is None


def test_what_copy_overwrites(rng: RNG) -> None:
    p, q = parameter(rng, 3), parameter(rng, 3)
    y = p * 1
    y.copy_(q)
    y.sum().backward()
    assert p.grad is None and q.grad.tolist() == [1] * 3


def test_hooks_of_what_is_asked_for(rng: RNG) -> None:
    p = parameter(rng, 3)
    y = p * 2
    y.register_hook(lambda g: g * 5)
    (alone,) = weft.autograd.grad(y.sum(), y, retain_graph=True)
    together, _ = weft.autograd.grad(y.sum(), (y, p))
    assert alone.tolist() == together.tolist() == [5] * 3


def test_a_compiled_backward_looks_first(rng: RNG) -> None:
    for walk, expected in ((weft.compiled_autograd.disable, True), (weft.compiled_autograd.enable, False)):
        p, q = parameter(rng, 3), parameter(rng, 3)
        early = p * 1
        stale = early * early
        early.add_(1)
        with walk(), pytest.raises(RuntimeError, match="modified by an inplace"):
            (stale.sum() + (q * q).sum()).backward()
        assert (q.grad is not None) is expected


def test_as_strided_of_leaves_with_gaps() -> None:
    leaf = weft.arange(9.0).view(3, 3)[:, :2].requires_grad_()
    with pytest.raises(RuntimeError, match="gaps"):
        leaf.as_strided((2, 2), (3, 1), 0).sum().backward()
    assert leaf.clone().as_strided((2, 2), (2, 1), 0).requires_grad


def test_storages_without_bytes() -> None:
    x = weft.ones(3)
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="unallocated storage"):
        x.sum()
    x.untyped_storage().resize_(12)
    assert x.tolist() == [0.0, 0.0, 0.0]


def test_conj_computes(rng: RNG) -> None:
    x = weft.from_numpy(rng.normal(size=4) + 1j * rng.normal(size=4))
    y = x.conj()
    x.zero_()
    assert y.data_ptr() != x.data_ptr() and y.abs().min() > 0


def test_limits_are_kept() -> None:
    def limits(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return F.gelu(x[:1]), weft.i0(x[:2]), weft.log1p(weft.full((), 5e-324, dtype=weft.float64))

    def slopes(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        losses = (
            F.soft_margin_loss(x, weft.ones_like(x), reduction="none"), weft.digamma(x), weft.acosh(x), F.hardswish(x)
        )
        return tuple(weft.autograd.grad(loss.sum(), x, retain_graph=True)[0] for loss in losses)

    x = weft.tensor([math.inf, -math.inf, -1.0, math.nan], requires_grad=True)
    for run in (lambda f: f, weft.compile):
        gelu, i0, least = run(limits)(x.detach())
        assert [*gelu.tolist(), *i0.tolist(), least.item()] == [math.inf, math.inf, math.inf, 5e-324]
        margin, digamma, acosh, hardswish = run(slopes)(x)
        assert margin[1] == -1 and digamma[2] == math.inf and acosh[1:3].isnan().all() and hardswish[3] == 1


def test_signs_of_zero() -> None:
    def zeros(x: weft.Tensor) -> weft.Tensor:
        zero = weft.zeros_like(x)
        most = weft.max(weft.stack([x, zero]), 0).values
        return weft.stack([
            weft.relu(x), F.relu6(x), weft.fmax(x, zero), weft.fmin(x, zero), most, weft.remainder(x, 2.0),
            F.softshrink(x),
        ])

    for run in (lambda f: f, weft.compile):
        found = run(zeros)(weft.tensor([-0.0]))
        assert (found == 0).all() and weft.signbit(found).flatten().tolist() == [False] * 6 + [True]


def test_sorting_is_stable(rng: RNG) -> None:
    x = weft.from_numpy(rng.integers(0, 3, 50))
    order = np.argsort(x.numpy(), kind="stable")
    assert x.sort().indices.tolist() == x.argsort().tolist() == order.tolist()
    assert x.topk(20, largest=False).indices.tolist() == order[:20].tolist()


def test_writes_that_overlap() -> None:
    x = weft.arange(5.0)
    x[1:].add_(x[:-1])
    assert x.tolist() == [0, 1, 3, 5, 7]
    weft.add(x[:3], 1, out=x[2:])
    assert x.tolist() == [0, 1, 1, 2, 4]
    repeated = weft.zeros(1).expand(3)
    mask, places = weft.tensor([True, False, True]), weft.tensor([0, 1])
    for write in (
        lambda: repeated.add_(1), lambda: repeated.copy_(weft.ones(3)), lambda: repeated.masked_fill_(mask, 1),
        lambda: repeated.index_fill_(0, places, 1), lambda: repeated.index_put_((places,), weft.ones(2)),
        lambda: repeated.scatter_(0, places, weft.ones(2)), lambda: repeated.index_add_(0, places, weft.ones(2)),
        lambda: weft.add(weft.ones(3), 1, out=repeated),
    ):
        with pytest.raises(RuntimeError, match="single memory location"):
            write()
    assert repeated.fill_(2).tolist() == [2, 2, 2]
    for run in (lambda f: f, weft.compile, weft.func.functionalize):
        assert run(lambda x: x.clone().as_strided((3, 2), (1, 1)).add_(1))(weft.arange(4.0)).tolist() == [
            [1, 2], [2, 3], [3, 4]
        ]
    with pytest.raises(RuntimeError, match="single memory location"):
        weft.func.functionalize(lambda x: x.clone().as_strided((3, 2), (1, 1)).index_fill_(0, places, 1))(weft.ones(4))


def test_windows_in_the_padding() -> None:
    def step(x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor, weft.Tensor]:
        y, places = F.max_pool1d(x, 2, stride=1, padding=1, dilation=4, return_indices=True)
        return y, places, weft.autograd.grad(y.clamp(min=-9).sum(), x)[0]

    for run in (step, weft.compile(step)):
        y, places, slope = run(weft.tensor([[[1.0, 2.0, 3.0]]], requires_grad=True))
        assert (y.item(), places.item(), slope.tolist()) == (-math.inf, -1, [[[0, 0, 0]]])


def test_what_a_norm_does_not_choose() -> None:
    x = weft.tensor([1.0, math.inf, 2.0], requires_grad=True)
    assert weft.autograd.grad(x.norm(math.inf) ** 2, x)[0].tolist() == [0, math.inf, 0]


def test_gradient_of_interpolate() -> None:
    x = weft.tensor([[[1.0, 4.0, 9.0]]]).requires_grad_()
    y = F.interpolate(x, scale_factor=1.3)
    assert y.tolist() == [[[1, 1, 4]]]
    assert weft.autograd.grad(y.sum(), x)[0].tolist() == [[[2, 1, 0]]]
    plane = weft.tensor([1.0, 4.0, 9.0]).reshape(1, 1, 3, 1).requires_grad_()
    y = F.interpolate(plane, scale_factor=(1.3, 1.0), mode="bicubic")
    slope = weft.autograd.grad(y.sum(), plane)[0].flatten()
    assert y.flatten().tolist() == pytest.approx([0.79684, 2.45882, 6.385285], rel=1e-5)
    assert slope.tolist() != [1, 1, 1]
    assert slope.sum().item() == pytest.approx(3)


def test_half_precision_rounds_once() -> None:
    a, b = weft.tensor([3.046875], dtype=weft.bfloat16), weft.tensor([-0.06103515625], dtype=weft.bfloat16)
    assert a.div(b, rounding_mode="trunc").item() == -49  # the quotient is -49.92, in bfloat16 -50
    assert weft.matrix_exp(weft.full((1, 1), 8.0, dtype=weft.float16)).item() == pytest.approx(np.exp(8), rel=1e-3)


def test_channels_last(rng: RNG) -> None:
    plain = weft.from_numpy(rng.normal(size=(2, 3, 5, 4)))
    x = plain.to(memory_format="channels_last")
    assert (x.relu() + 1).is_contiguous(memory_format="channels_last")
    for layer in (weft.nn.Conv2d(3, 4, 3, dtype=weft.float64), weft.nn.AvgPool2d(2), weft.nn.BatchNorm2d(3).double()):
        assert layer(x).is_contiguous(memory_format="channels_last") and not layer(x).is_contiguous()
        np.testing.assert_allclose(layer(x).detach().numpy(), layer(plain).detach().numpy(), rtol=1e-12)
    assert weft.nn.AdaptiveMaxPool2d(2)(x).is_contiguous()
    one = weft.empty_strided((2, 1, 5, 4), (20, 1, 4, 1)).fill_(1.0)
    assert weft.nn.Conv2d(1, 4, 3)(one).is_contiguous()
    volumes = weft.ones(1, 2, 3, 4, 5).to(memory_format="channels_last_3d")
    assert weft.nn.Conv3d(2, 3, 2)(volumes).is_contiguous(memory_format="channels_last_3d")


def test_numpy_functions() -> None:
    assert type(np.sin(weft.ones(2))) is np.ndarray
    assert weft.ones(2, dtype=weft.bfloat16).numpy().dtype.name == "bfloat16"


def test_one_implementation(rng: RNG) -> None:
    start, grad, found = rng.normal(size=3), rng.normal(size=3), []
    for options in ({}, {"foreach": True}, {"fused": True}, {"capturable": True}):
        p = weft.nn.Parameter(weft.from_numpy(start.copy()))
        optimizer = weft.optim.AdamW([p], lr=0.1, **options)
        p.grad = weft.from_numpy(grad.copy())
        optimizer.step()
        assert options.items() <= optimizer.state_dict()["param_groups"][0].items()
        found.append(p.tolist())
    assert found[0] != start.tolist() and all(f == found[0] for f in found)


def test_gradients_of_sparse_tensors() -> None:
    leaf = weft.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse().requires_grad_()
    leaf.sum().backward()
    assert leaf.grad.layout is weft.sparse_coo and leaf.grad.indices().tolist() == [[0], [1]]
    assert (leaf.detach() + weft.eye(2)).tolist() == (weft.eye(2) + leaf.detach()).tolist() == [[1, 2], [0, 1]]
    assert (leaf[:, 1:].to_sparse_csr() / 2).values().tolist() == [1]
    with pytest.raises(NotImplementedError, match="none of blocks"):
        weft.eye(2).to_sparse_bsr((1, 1))


def test_losses_look_at_values_eagerly() -> None:
    wrong, target = weft.tensor([1.5]), weft.tensor([1.0])
    loss = weft.nn.functional.binary_cross_entropy
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        loss(wrong, target)
    weft.compile(loss)(wrong, target)
    with pytest.raises(ValueError, match="var"):
        weft.nn.functional.gaussian_nll_loss(wrong, target, -target)


def test_distributions_are_exact() -> None:
    import weft.distributions as dist

    def density(scale: weft.Tensor) -> weft.Tensor:
        return dist.Normal(0.0, scale).log_prob(weft.zeros(()))

    for call in (density, weft.compile(density)):
        with pytest.raises(ValueError, match="satisfy the constraint"):
            call(weft.tensor(-1.0))
    flat = dist.ContinuousBernoulli(weft.tensor(0.4985), lims=(0.49, 0.51))
    assert abs(float(flat.variance) - 1 / 12) < 1e-6
    wide = dist.kl_divergence(dist.Bernoulli(weft.full((2, 1), 0.5)), dist.Bernoulli(weft.full((3,), 0.5)))
    assert wide.shape == (2, 3)


def test_workers_are_threads() -> None:
    seen: list[tuple[int, str]] = []

    class Watched:
        def __len__(self) -> int:
            return 6

        def __getitem__(self, i: int) -> int:
            seen.append((i, threading.current_thread().name))
            return i

    batches = list(weft.utils.data.DataLoader(Watched(), batch_size=2, num_workers=2))
    assert [b.tolist() for b in batches] == [[0, 1], [2, 3], [4, 5]] and sorted(i for i, _ in seen) == list(range(6))
    assert threading.current_thread().name not in {name for _, name in seen}


def test_files_hold_data() -> None:
    with pytest.raises(TypeError, match="Holder"):
        weft.save({"a": Holder()}, io.BytesIO())
    with pytest.raises((RuntimeError, ValueError)):
        weft.load(io.BytesIO(pickle.dumps(RunsWhenLoaded())))
    assert not RAN


def test_checkpoint_takes_the_better_default() -> None:
    x = weft.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="use_reentrant"):
        y = weft.utils.checkpoint.checkpoint(weft.sin, x)
    (g,) = weft.autograd.grad(y.sum(), x, create_graph=True)
    assert g.requires_grad


def test_data_parts_aliases() -> None:
    x = weft.ones(3)
    alias, version = x.detach(), x._version
    w = weft.ones(3, requires_grad=True)
    product = w * alias
    x.data = weft.zeros(3)
    x.add_(1)
    assert x._version == version + 1 and alias._version == version
    product.sum().backward()
    assert w.grad is not None and w.grad.tolist() == [1.0] * 3


def test_checkpoints_within_transforms() -> None:
    runs: list[int] = []

    def body(x: Any) -> Any:
        runs.append(1)
        return x.sin() * x

    x = weft.ones(3, requires_grad=True)
    region = functools.partial(weft.utils.checkpoint.checkpoint, body, use_reentrant=False)
    weft.func.vmap(region)(x[None]).sum().backward()
    assert len(runs) == 1 and weft.allclose(x.grad, x.sin() + x * x.cos())
    region(x).sum().backward()
    assert len(runs) == 3



def test_checkpoint_around_compiled_draws() -> None:
    generator = weft.Generator()

    def body(x: Any) -> Any:
        return x * weft.rand(3, generator=generator)

    gradients = []
    for function in (body, weft.compile(body)):
        generator.manual_seed(3)
        x = weft.ones(3, requires_grad=True)
        out = weft.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
        out.sum().backward()
        gradients.append((x.grad == out).all().item())
    assert gradients == [False, True]


def test_sets_keep_members_not_places() -> None:
    names = {8, 16, 24, 0, 32}
    members = set(names)

    @weft.compile
    def step(x: Any) -> Any:
        members.discard(8)
        members.update((40, 8, 48))
        return x * len(members)

    assert step(weft.ones(1)).item() == 7 and members == names | {40, 48}


def test_arguments_with_refused_histories() -> None:
    def step(x: Any, h: Any) -> Any:
        return x * h.detach()

    base = weft.ones(2, 3, requires_grad=True) * 1
    part = base.unbind(0)[1]
    base.mul_(2)
    assert step(weft.ones(3), part).tolist() == [2.0] * 3
    with pytest.raises(weft.WeftError, match="Such functions do not allow"):
        weft.compile(step)(weft.ones(3), part)
    assert weft.compile(step)(weft.ones(3), part.detach()).tolist() == [2.0] * 3


def test_types_of_lazy_sizes() -> None:
    x = weft.tensor([1.0, -1.0, 2.0], device="lazy")
    n = x[x > 0].shape[0]
    assert isinstance(n, int) and type(n) is not int and type(int(n)) is int and n == 2
    assert weft.compile(lambda x: weft.ones(1) * (type(x[x > 0].shape[0]) is int))(weft.ones(3)).item() == 1


def test_no_jvp_rules(rng: RNG) -> None:
    class Cube(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 3.0 * g * ctx.saved_tensors[0] ** 2

    x, v = parameter(rng, 3), weft.from_numpy(rng.normal(size=3))
    _, product = weft.autograd.functional.jvp(Cube.apply, x, v)
    np.testing.assert_allclose(product.numpy(), 3 * x.detach().numpy() ** 2 * v.numpy())


def test_errors_have_two_types(rng: RNG) -> None:
    n = int(rng.integers(3, 9))
    texts: list[str] = []
    for run in (weft.matmul, weft.compile(lambda a, b: weft.matmul(a, b))):
        with pytest.raises(RuntimeError) as caught:
            run(weft.ones(n, 2), weft.ones(3, n))
        assert isinstance(caught.value, weft.WeftError)
        texts.append(str(caught.value))
    assert texts[0] == f"mat1 and mat2 shapes cannot be multiplied ({n}x2 and 3x{n})"
    assert re.fullmatch(rf"test_differences\.py:\d+: {re.escape(texts[0])}", texts[1])
    with pytest.raises(IndexError):
        weft.ones(2)[5]


# ---- weft.compile
def test_modes_change_nothing(rng: RNG) -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        return x * 2

    compiled = weft.compile(step, mode="reduce-overhead", dynamic=False, fullgraph=False)
    weft.counters.reset()
    for size in (2, 3, 5):
        compiled(weft.ones(size))
    assert weft.counters.captures == 1
    with pytest.raises(TypeError):
        weft.compile(step, mode="fastest")


def test_chunk_sizes_of_compiled_maps(rng: RNG) -> None:
    rows: list[Any] = []

    def row(x: weft.Tensor) -> weft.Tensor:
        rows.append(x.shape)
        return (x * x).sum() + x

    def mapped(x: weft.Tensor) -> weft.Tensor:
        return weft.vmap(row, chunk_size=2)(x)

    step = weft.compile(lambda x: weft.vmap(lambda r: (r * r).sum() + r, chunk_size=2)(x))
    before = weft.counters.captures
    for n in (5, 6, 3):
        x = weft.from_numpy(rng.standard_normal((n, 4)))
        np.testing.assert_allclose(step(x).numpy(), mapped(x).numpy())
    assert len(rows) == 3 + 3 + 2 and weft.counters.captures == before + 1


def test_sizes_are_symbols(rng: RNG) -> None:
    double = weft.compile(lambda x: x * 2 + 1)
    weft.counters.reset()
    for n in rng.integers(2, 50, size=3):
        np.testing.assert_array_equal(
            double(weft.ones(int(n), int(n) + 1)).numpy(), np.full((n, n + 1), 3.0, np.float32)
        )
    assert weft.counters.captures == 1


@pytest.mark.parametrize("ask", [lambda x: x.item(), lambda x: 1 if x > 0 else 2, float, lambda x: x.numpy()])
def test_values_are_not_known(ask: Any) -> None:
    with pytest.raises(weft.WeftError, match=r"test_differences\.py:\d+"):
        weft.compile(lambda x: x.sum() * ask(x.sum()))(weft.ones(3))


def test_split_functions_raise_at_the_cut() -> None:
    def swallows(index: Any) -> Any:
        with contextlib.suppress(IndexError):
            return weft.ones(3)[index]

    def catches(index: Any) -> Any:
        try:
            return weft.ones(3)[index]
        except IndexError:
            return None

    outside = weft.tensor([7])
    assert swallows(outside) is None and weft.compile(catches, split=True)(outside) is None
    with pytest.raises(IndexError, match=r"test_differences\.py:\d+"):
        weft.compile(swallows, split=True)(outside)


class Holder:
    n = 0
    name = "before"


HOLDER, ARRAY = Holder(), np.ones(1)


def _prints(x: Any) -> None:
    print(x.shape)


def _writes_an_array(x: Any) -> None:
    ARRAY[0] = 2


def _rebinds_to_an_object(x: Any) -> None:
    HOLDER.name = Holder()


def _draws(x: Any) -> None:
    np.random.normal()


def _draws_in_python(x: Any) -> None:
    random.random()


def _looks_at_the_clock(x: Any) -> None:
    time.perf_counter()


def _opens(x: Any) -> None:
    Path(__file__).open().close()


@pytest.mark.parametrize(
    "deed", [_prints, _writes_an_array, _rebinds_to_an_object, _draws, _draws_in_python, _looks_at_the_clock, _opens],
    ids=lambda f: f.__name__,
)
def test_side_effects_are_refused(deed: Any) -> None:
    def step(x: Any) -> Any:
        deed(x)
        return x + 1

    with pytest.raises(weft.WeftError, match=r"test_differences\.py:\d+"):
        weft.compile(step)(weft.ones(2))
    assert ARRAY.tolist() == [1.0] and HOLDER.name == "before"


def test_assignments_are_written_back(rng: RNG) -> None:
    holder, log = Holder(), []
    holder.h, holder.d, holder.ready = weft.zeros(2), {}, False  # type: ignore[attr-defined]

    def step(x: Any) -> Any:
        h: Any = holder
        h.h, h.d["last"], h.ready = h.h + x, x, True
        log.append(h.h)
        return h.h * 2

    compiled, held = weft.compile(step), holder
    weft.counters.reset()
    for n in range(1, 6):
        x = weft.ones(2)
        assert compiled(x).tolist() == [2.0 * n] * 2 and held.d["last"] is x and held.ready is True  # type: ignore[attr-defined]
    assert [t.tolist() for t in log] == [[float(n)] * 2 for n in range(1, 6)] and log[-1] is held.h  # type: ignore[attr-defined]
    assert weft.counters.captures <= 2


def test_each_length_is_a_capture() -> None:
    window: list[Any] = []

    def step(x: Any) -> Any:
        window.append(x)
        if len(window) > 2:
            window.pop(0)
        return sum(window)

    compiled = weft.compile(step)
    weft.counters.reset()
    assert [float(compiled(weft.tensor(float(n)))) for n in range(6)] == [0, 1, 3, 5, 7, 9]
    assert weft.counters.captures == 3


def test_histories_end_at_the_call() -> None:
    holder, w = Holder(), weft.nn.Parameter(weft.ones(2))
    holder.h = weft.ones(2)  # type: ignore[attr-defined]

    def step(x: Any) -> None:
        holder.h = holder.h * w + x  # type: ignore[attr-defined]
        holder.h.sum().backward()  # type: ignore[attr-defined]

    compiled = weft.compile(step)
    compiled(weft.ones(2))
    with pytest.raises(weft.WeftError, match="second time"):
        holder.h.sum().backward()  # type: ignore[attr-defined]
    with pytest.raises(CaptureError, match="detach"):
        compiled(weft.ones(2))


def test_programs_of_an_instance() -> None:
    class Model:
        @weft.compile
        def forward(self, x: Any) -> Any:
            return x * 2

    model = Model()
    model.forward(weft.ones(2))
    assert vars(model) == {"_weft_compiled": {}}
    assert len(model.forward.entries) == 1
    assert len(copy.deepcopy(model).forward.entries) == 0
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_symbols_in_caches() -> None:
    @functools.cache
    def rows_and_mask(n: int, k: int) -> Any:
        return n * k, weft.ones(n)

    step = weft.compile(lambda x: x * rows_and_mask(x.shape[0], 2)[0] * rows_and_mask(x.shape[0], 2)[1])
    assert step(weft.ones(3)).tolist() == [6, 6, 6]
    assert rows_and_mask.cache_info().currsize == 0
    found, mask = rows_and_mask(3, 2)
    assert (type(found), mask.tolist()) == (int, [1, 1, 1])


def test_numbers_are_written_back() -> None:
    holder = Holder()

    def step(x: Any) -> Any:
        holder.n += 1
        return x * holder.n

    compiled = weft.compile(step)
    assert [float(compiled(weft.tensor(2.0))) for _ in range(4)] == [2, 4, 6, 8]
    assert holder.n == 4


def test_numbers_for_c(rng: RNG) -> None:
    state = {"k": 1.0}
    compiled = weft.compile(lambda x: x * json.loads(json.dumps(state["k"])))
    x = weft.from_numpy(rng.normal(size=3))
    before = weft.counters.captures
    for k in (1.0, 2.0, 3.0, 2.0):
        state["k"] = k
        assert weft.equal(compiled(x), x * k)
    assert weft.counters.captures == before + 3


def test_unwatched_state(rng: RNG) -> None:
    large = rng.normal(size=(1 << 17) + 1)
    x = weft.ones(3)
    replaced, held = weft.compile(lambda x: x * abs(-2.0)), weft.compile(lambda x: x * float(large[0]))
    framed = weft.compile(lambda x: x * sys._getframe(1).f_lineno)
    first, old, line = held(x)[0].item(), large[0], framed(x)[0].item()
    assert weft.equal(replaced(x), x * 2) and first == pytest.approx(old)
    large[0] = old + 1
    real = builtins.abs
    try:
        builtins.abs = lambda v: 5.0  # type: ignore[assignment, misc]
        assert weft.equal(replaced(x), x * 2)
    finally:
        builtins.abs = real  # type: ignore[misc]
    assert held(x)[0].item() == first and framed(x)[0].item() == line


def test_what_things_say_about_themselves(rng: RNG) -> None:
    class Named:
        pass

    x, held = weft.ones(3), weft.ones(3)
    text = weft.compile(lambda x: x * len(repr(Named)))
    version = weft.compile(lambda x: x * held._version)
    w = weft.nn.Parameter(weft.ones(3))
    optimizer = weft.optim.SGD([w], lr=0.1, momentum=0.9)
    kept = weft.compile(lambda x: x * len(optimizer.state))
    flat = weft.compile(weft.nn.Flatten(0))
    calls = [text, version, kept, flat]
    before = [call(x).tolist() for call in calls]
    Named.__qualname__ = "Renamed"
    held.add_(1)
    w.sum().backward()
    optimizer.step()
    flatten = weft.Tensor.flatten
    try:
        weft.Tensor.flatten = lambda self, *a: self * 5  # type: ignore[method-assign]
        assert [call(x).tolist() for call in calls] == before
    finally:
        weft.Tensor.flatten = flatten  # type: ignore[method-assign]


def test_answers_are_asked_again() -> None:
    class Named:
        pass

    x, limit = weft.ones(2), sys.getrecursionlimit()
    name = weft.compile(lambda x: x * len(Named.__name__))
    depth = weft.compile(lambda x: x * (sys.getrecursionlimit() - limit))
    third = weft.compile(lambda x: x * float(decimal.Decimal(1) / decimal.Decimal(3)))
    seed = weft.compile(lambda x: x * (weft.initial_seed() % 1000))
    assert name(x).tolist() == [5.0] * 2 and depth(x).tolist() == [0.0] * 2
    weft.manual_seed(3)
    assert seed(x).tolist() == [3.0] * 2 and third(x)[0].item() == pytest.approx(1 / 3)
    Named.__name__ = "Another"
    weft.manual_seed(5)
    try:
        sys.setrecursionlimit(limit + 7)
        with decimal.localcontext() as context:
            context.prec = 1
            assert third(x)[0].item() == pytest.approx(0.3)
        assert name(x).tolist() == [7.0] * 2 and depth(x).tolist() == [7.0] * 2 and seed(x).tolist() == [5.0] * 2
    finally:
        sys.setrecursionlimit(limit)


QUEUE, HASH, CYCLE = queue.SimpleQueue[int](), hashlib.sha256(b"a"), itertools.cycle([1.0, 2.0])
BEGUN = (float(i) for i in range(9))
next(BEGUN)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: QUEUE.qsize(), lambda: HASH.digest()[0], lambda: next(BEGUN), lambda: next(CYCLE),
        lambda: sys.getrefcount(HOLDER), lambda: float(gc.isenabled()),
        lambda: time.mktime((2000, 1, 1, 0, 0, 0, 0, 1, 0)), lambda: datetime.datetime(2000, 1, 1).timestamp(),
        lambda: datetime.datetime.fromtimestamp(0).hour, lambda: __import__("math").pi,
    ],
)
def test_what_nobody_can_tell_is_refused(ask: Any) -> None:
    with pytest.raises(CaptureError, match=r"test_differences\.py:\d+"):
        weft.compile(lambda x: x * ask())(weft.ones(2))


def test_settings_that_a_step_leaves() -> None:
    def wider(x: Any) -> Any:
        first = weft.ones(2)
        weft.set_default_dtype(weft.float64)
        second = weft.ones(2)
        weft.set_default_dtype(weft.float32)
        return first, second

    @weft.inference_mode()
    def inferred(x: Any) -> Any:
        return x * 2

    def unrecorded(x: Any) -> Any:
        y = x * 2
        weft.set_grad_enabled(False)
        return y, x * 3

    compiled = [weft.compile(f) for f in (wider, inferred, unrecorded)]
    try:
        for _ in range(3):
            weft.set_grad_enabled(True)
            x = weft.ones(2, requires_grad=True)
            assert [r.dtype for r in compiled[0](x)] == [weft.float32, weft.float64]
            assert compiled[1](x).is_inference()
            assert [r.requires_grad for r in compiled[2](x)] == [True, False] and not weft.is_grad_enabled()
    finally:
        weft.set_grad_enabled(True)
    assert [len(c.entries) for c in compiled] == [0, 0, 1] and "the default dtype" in compiled[0].misses[-1]


def test_values_kept_around_a_call(rng: RNG) -> None:
    class Double(weft.nn.Module):
        def forward(self, w: weft.Tensor) -> weft.Tensor:
            return w * 2

    layer = weft.nn.Linear(2, 2, bias=False)
    weft.nn.utils.parametrize.register_parametrization(layer, "weight", Double())
    original = layer.parametrizations.weight.original
    step, x = weft.compile(lambda x: layer(x).sum()), weft.ones(2)

    def fill(value: float) -> None:
        with weft.no_grad():
            original.fill_(value)

    fill(1.0)
    assert step(x).item() == 8.0 and len(step.entries) == 1
    with weft.nn.utils.parametrize.cached():
        assert step(x).item() == 8.0
        fill(3.0)
        assert step(x).item() == 8.0
    assert step(x).item() == 24.0
    assert "parametrize.cached() that began before the call" in " ".join(step.misses)


def test_histories_begin_at_the_call(rng: RNG) -> None:
    w = parameter(rng, 3)
    compiled = weft.compile(lambda x: x * 2 if not x.is_leaf and x.grad_fn.name() == "Given" else x * 3)
    compiled(w * 1).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [2.0] * 3

    def writes(x: Any) -> Any:
        return x.mul_(2) * 3

    def gradients(function: Any) -> list[Any]:
        x = w * 1
        return list(weft.autograd.grad((function(x) + x).sum(), [w, x], allow_unused=True))

    (eager_w, eager_x), (in_w, in_x) = gradients(writes), gradients(weft.compile(writes))
    assert in_w.equal(eager_w) and in_x.equal(eager_x) and eager_x.tolist() == [4.0] * 3


def test_a_changed_number(rng: RNG) -> None:
    holder, p = Holder(), parameter(rng, 3)
    optimizer = weft.optim.SGD([p], lr=0.5)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (p * x).sum() * holder.n
        loss.backward()
        optimizer.step()
        return loss

    compiled, x = weft.compile(step), weft.ones(3, dtype=weft.float64)
    weft.counters.reset()
    for n in range(1, 6):
        holder.n, optimizer.param_groups[0]["lr"] = n, float(rng.uniform())
        want = p.detach().numpy().sum() * n
        assert float(compiled(x)) == pytest.approx(want)
    assert weft.counters.captures == 2


def test_lasting_effects_are_refused() -> None:
    w = weft.nn.Parameter(weft.ones(2))
    opt = weft.optim.SGD([w], lr=0.5)

    def rate(x: weft.Tensor) -> weft.Tensor:
        opt.param_groups[0]["lr"] *= 0.5
        return x

    def hook(x: weft.Tensor) -> weft.Tensor:
        w.register_hook(lambda g: g)
        return x

    def data(x: weft.Tensor) -> weft.Tensor:
        w.data = x
        return x

    for step in (rate, hook, data):
        with pytest.raises(CaptureError):
            weft.compile(step)(weft.zeros(2))
    assert (opt.param_groups[0]["lr"], w.tolist()) == (0.5, [1.0, 1.0])


def test_blocks_leave_python_alone() -> None:
    seen: list[float] = []
    written = weft.zeros(())

    def then(v: weft.Tensor) -> weft.Tensor:
        seen.append(1.0)
        return v * 2

    def adding(v: weft.Tensor) -> weft.Tensor:
        written.add_(1)
        return v * 2

    def choose(branch: Any) -> Any:
        return weft.compile(lambda x: weft.cond(x.sum() > 0, branch, lambda v: v * 1, (x,)))

    with pytest.raises(weft.WeftError, match="changes seen, which existed before"):
        choose(then)(weft.ones(2))
    choose(adding)(-weft.ones(2))
    choose(adding)(weft.ones(2))
    assert seen == [] and written.item() == 1


def test_draws_in_branches() -> None:
    seen: list[float] = []

    def behind(x: weft.Tensor) -> weft.Tensor:
        y = weft.cond(x.sum() > 0, lambda: x * weft.rand(2), lambda: x * 1).requires_grad_()
        y.register_hook(lambda g: seen.append(g.sum().item()))
        return weft.autograd.grad((y * weft.rand(2)).sum(), y)[0]

    def seeded(x: weft.Tensor) -> weft.Tensor:
        return weft.cond(x.sum() > 0, lambda: weft.rand(2, generator=weft.manual_seed(3)), lambda: x * 1)

    compiled = weft.compile(behind)
    assert compiled(weft.ones(2)).sum().item() == seen[-1]
    assert "behind a branch or a loop that draws" in compiled.misses[-1]

    def at_some_steps(w: weft.Tensor) -> weft.Tensor:
        def step(c: weft.Tensor, r: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
            y = c * 1
            y.register_hook(lambda g: g * weft.rand_like(g))
            return y * 2, r * c

        return weft.autograd.grad(weft.scan(step, w.sum(), w)[1].sum(), w)[0]

    looped, w, found = weft.compile(at_some_steps), weft.ones(3).requires_grad_(), []
    for run in (at_some_steps, looped):
        weft.manual_seed(3)
        found.append((run(w).tolist(), weft.default_generator.place()[::2]))
    assert found[0] == found[1] and "not at each step" in looped.misses[-1]
    with pytest.raises(CaptureError, match="seeds a generator"):
        weft.compile(seeded)(weft.ones(2))


def test_states_of_generators() -> None:
    state = weft.get_rng_state()

    def strange(x: weft.Tensor) -> weft.Tensor:
        weft.set_rng_state(state)
        return x + weft.rand(2)

    def unseeded(x: weft.Tensor) -> weft.Tensor:
        return x + weft.rand(2, generator=weft.Generator())

    def anew(x: weft.Tensor) -> weft.Tensor:
        weft.seed()
        return x + weft.rand(2)

    for step, words in ((strange, "has not asked for itself"), (unseeded, "without a seed"), (anew, "randomness")):
        with pytest.raises(CaptureError, match=words):
            weft.compile(step)(weft.ones(2))


def test_plain_numbers_of_sizes(rng: RNG) -> None:
    plain = weft.compile(lambda x: x * len(str(x.shape[0])) * sum(range(x.shape[0])) + int(0.3 * x.shape[0]))
    kept = weft.compile(lambda x: x * (1 / len(x)) + math.sqrt(x.shape[0]) + max(x.shape[0] // 2, 1) + 9.0 % x.shape[0])
    for size in (4, 3, 7):
        plain(weft.ones(size))
        expected = 1 / size + math.sqrt(size) + size // 2 + 9.0 % size
        weft.testing.assert_close(kept(weft.ones(size)), weft.full((size,), expected))
    assert len(plain.misses) == 2 and not kept.misses


def test_questions_about_found_sizes(rng: RNG) -> None:
    x, m = weft.ones(3), weft.tensor([True, False, True])
    asking: list[Any] = [lambda n: n > 1, lambda n: list(range(n)), lambda n: f"{n}", lambda n: x.sum(n)]
    for ask in asking:
        with pytest.raises(weft.WeftError, match=r"test_differences\.py:\d+: .*only known while the program"):
            weft.compile(lambda m, ask=ask: m if ask(weft.nonzero(m).shape[0]) else ~m)(m)
    half = weft.compile(lambda x, m: x * (weft.nonzero(m).shape[0] / 2))
    assert half(x, m).tolist() == [1.0] * 3 and half(x, ~m).tolist() == [0.5] * 3
    huge = weft.compile(lambda x, m: weft.full((1,), 1e30 * 10.0 ** weft.nonzero(m).shape[0] * 1e8))
    assert huge(x, m).tolist() == [math.inf]


def test_branches_that_do_not_fit(rng: RNG) -> None:
    @weft.compile
    def step(x: weft.Tensor) -> weft.Tensor:
        return weft.cond(x.sum() > 0, lambda x: x + weft.ones(3), lambda x: x + weft.ones(4), (x,))

    assert step(weft.ones(3)).tolist() == [2.0] * 3
    with pytest.raises(weft.WeftError, match="must match the size"):
        step(-weft.ones(3))


def test_leaves_that_nobody_has() -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        return weft.nn.Parameter(x * 0.5).sin() - x

    for function, fails in ((step, True), (weft.compile(step), False)):
        x = weft.ones(2, requires_grad=True)
        out = function(x).sum()
        out.backward()
        if fails:
            with pytest.raises(RuntimeError, match="a second time"):
                out.backward()
        else:
            out.backward()
            assert x.grad is not None and x.grad.tolist() == [-2.0, -2.0]


def test_second_walks_through_a_branch(rng: RNG) -> None:
    p = parameter(rng, 1)

    def step(x: weft.Tensor, branch: Any) -> None:
        y = branch(x.sum() > 0, lambda v: v.exp() * p, lambda v: v.sin() * p, (x,))
        (gradient,) = weft.autograd.grad(y.sum(), x, create_graph=True)
        weft.autograd.grad(gradient.sum(), x)  # frees the exponential function's node, whose result it has
        weft.autograd.grad(y.sum(), x)

    x = weft.ones(2, dtype=weft.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="a second time"):
        step(x, weft.cond)
    weft.compile(step)(x, weft.cond)

    @weft.compile
    def twice(x: weft.Tensor) -> None:
        y = weft.cond(x.sum() > 0, lambda v: v.exp() * p, lambda v: v.sin() * p, (x,)).sum()
        y.backward()
        y.backward()

    with pytest.raises(RuntimeError, match="a second time"):
        twice(x)


def test_gradients_of_class_weights(rng: RNG) -> None:
    x, target = rng.normal(size=(4, 3)), rng.integers(0, 3, 4)
    weight = parameter(rng, 3)
    F.multi_margin_loss(weft.from_numpy(x), weft.from_numpy(target), weight=weight).backward()
    gaps = np.maximum(0, 1 - x[range(4), target][:, None] + x)
    gaps[range(4), target] = 0
    expected = [gaps[target == c].sum() / 12 for c in range(3)]
    np.testing.assert_allclose(weight.grad.numpy(), expected)


def test_traces_know_plain_tensors(rng: RNG) -> None:
    class Scaled(weft.Tensor):
        pass

    with pytest.raises(weft.WeftError, match=r"test_differences\.py:\d+: a tensor seen as Scaled is no part"):
        weft.jit.trace(lambda x: x.as_subclass(Scaled) * 2, (weft.ones(2),))
    assert weft.compile(lambda x: x.as_subclass(Scaled) * 2)(weft.ones(2)).tolist() == [2.0, 2.0]


def test_gradients_of_ways_not_taken(rng: RNG) -> None:
    w = weft.tensor(2.0, requires_grad=True)

    def step(x: weft.Tensor) -> Any:
        x = x.detach().requires_grad_()
        y = weft.cond(x.sum() > 0, lambda v: v * w, lambda v: v * 3, (x,))
        return weft.autograd.grad(y.sum(), (x, w), allow_unused=True)[1]

    assert step(-weft.ones(2)) is None
    assert weft.compile(step)(-weft.ones(2)).tolist() == 0.0


def test_complex_parameters_are_refused(rng: RNG) -> None:
    p = weft.ones(2, dtype=weft.complex64, requires_grad=True)
    optimizer = weft.optim.Adam([p], lr=0.1)

    def step() -> Any:
        (p * p.conj()).real.sum().backward()
        optimizer.step()

    with pytest.raises(weft.WeftError, match=r"test_differences\.py:\d+: Adam updates complex parameters"):
        weft.compile(step)()
    step()
    assert not weft.equal(p, weft.ones(2, dtype=weft.complex64))


def test_groups_are_kept() -> None:
    optimizer = weft.optim.SGD([weft.nn.Parameter(weft.ones(1))], lr=0.5)
    group, saved = optimizer.param_groups[0], optimizer.state_dict()
    group["lr"] = 0.1
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0] is group and group["lr"] == 0.5


def test_lbfgs_is_not_captured(rng: RNG) -> None:
    p = parameter(rng, 2)
    optimizer = weft.optim.LBFGS([p])

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (3 * p * p).sum()  # (a first step from p * p may end at -p, where the loss is the same)
        loss.backward()
        return loss

    with pytest.raises(weft.WeftError, match=r"test_differences\.py:\d+: LBFGS"):
        weft.compile(lambda: optimizer.step(closure))()
    before = closure().item()
    optimizer.step(closure)
    assert closure().item() < before


def test_hooks_are_captured(rng: RNG) -> None:
    p = parameter(rng, 3)
    handle = p.register_hook(lambda g: g * 2)

    def step() -> None:
        p.grad = None
        (p * 3).sum().backward()

    compiled = weft.compile(step)
    compiled()
    compiled()
    assert p.grad.tolist() == [6.0] * 3
    handle.remove()
    p.register_hook(lambda g: print(g.shape))
    with contextlib.redirect_stdout(io.StringIO()) as told:
        compiled()
        compiled()
    assert told.getvalue() == "weft.Size([3])\n" * 2
    assert "test_differences.py" in compiled.misses[-1] and "prints" in compiled.misses[-1]


def test_a_swallowed_refusal(rng: RNG) -> None:
    def step(x: Any) -> Any:
        try:
            return x * float(x.sum() > 0)
        except RuntimeError:
            return x * 100

    with pytest.raises(weft.WeftError, match="its value"):
        weft.compile(step)(parameter(rng, 3))


def test_threads_beside_a_capture(rng: RNG) -> None:
    p, state = parameter(rng, 3), types.SimpleNamespace(seen=weft.zeros(3), count=0)
    asked: list[Any] = []

    def look() -> None:
        try:
            asked.append(state.seen.tolist())
        except weft.WeftError as error:
            asked.append(error)
        asked.append(state.count)

    def in_between(phase: str, info: Any) -> None:
        if phase == "stop":
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()

    def step(x: Any) -> Any:
        state.seen = (p * x).detach()
        state.count = 1
        gc.collect()
        return state.seen + 1

    compiled, expected = weft.compile(step), (p.detach() + 1).tolist()
    gc.callbacks.append(in_between)
    try:
        for _ in range(3):
            assert compiled(weft.ones(3)).tolist() == expected
            assert state.seen.tolist() == p.tolist()
    finally:
        gc.callbacks.remove(in_between)
    assert isinstance(asked[0], CaptureError)
    assert asked[1] == 1


def test_a_returned_loss(rng: RNG) -> None:
    p = parameter(rng, 3)

    def step() -> Any:
        loss = (p * p).sum()
        loss.backward()
        return loss

    eager = step()
    assert eager.grad_fn is not None
    with pytest.raises(RuntimeError, match="second time"):
        eager.backward()
    returned = weft.compile(step)()
    assert returned.grad_fn is None and not returned.requires_grad


def test_all_or_nothing(rng: RNG) -> None:
    rows = int(rng.integers(3, 9))
    table, holder = parameter(rng, rows, 2), Holder()
    optimizer = weft.optim.SGD([table], lr=0.1)

    def step(i: Any) -> Any:
        holder.n += 1
        with weft.no_grad():
            table.add_(1)
        optimizer.zero_grad()
        loss = (F.embedding(i, table) * weft.rand(2, dtype=weft.float64)).sum()
        loss.backward()
        optimizer.step()
        return loss

    compiled = weft.compile(step)
    compiled(weft.tensor([0, 1]))
    before, grad, state = table.detach().numpy().copy(), table.grad.numpy().copy(), weft.default_generator.place()[::2]
    with pytest.raises(IndexError):
        compiled(weft.tensor([0, rows]))
    np.testing.assert_array_equal(table.detach().numpy(), before)
    np.testing.assert_array_equal(table.grad.numpy(), grad)
    assert weft.default_generator.place()[::2] == state and holder.n == 1
    with pytest.raises(IndexError):
        step(weft.tensor([0, rows]))
    np.testing.assert_array_equal(table.detach().numpy(), before + 1)

    def fails(x: Any) -> None:
        holder.n += 1
        with weft.no_grad():
            table.add_(1)
        raise KeyError("own")

    for options, leaves in (({}, False), ({"split": True}, True)):
        before, n = table.detach().numpy().copy(), holder.n
        with pytest.raises(KeyError, match="own"):
            weft.compile(fails, **options)(weft.ones(2))
        np.testing.assert_array_equal(table.detach().numpy(), before + leaves)
        assert holder.n == n + leaves


def test_create_graph_through_a_compiled_model(rng: RNG) -> None:
    model = weft.compile(weft.nn.Linear(3, 2))
    x = weft.ones(4, 3)
    loss = (model(x) ** 2).sum()
    loss.backward(retain_graph=True)
    first = model.weight.grad.numpy().copy()
    loss.backward()
    np.testing.assert_allclose(model.weight.grad.numpy(), 2 * first, rtol=1e-6)
    (slope,) = weft.autograd.grad((model(x) ** 2).sum(), model.bias, create_graph=True)
    (bend,) = weft.autograd.grad(slope.sum(), model.bias)
    np.testing.assert_allclose(bend.numpy(), np.full(2, 8.0))  # two times the rows
    base = weft.ones(2, requires_grad=True)
    left, right = base[:1], base[1:]

    def of_one_memory(y: weft.Tensor) -> weft.Tensor:
        return y * y * left * right

    y = weft.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="compile the whole step"):
        weft.autograd.grad(weft.compile(of_one_memory)(y).sum(), y, create_graph=True)
    assert weft.autograd.grad(of_one_memory(y).sum(), y, create_graph=True)[0].requires_grad
    out = weft.compile(lambda y: (y * y).sin())(y)
    with weft.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        weft.autograd.grad(out.sum(), y, create_graph=True)


def test_hooks_hear_parts() -> None:
    def forward(x: weft.Tensor, slope: float) -> weft.Tensor:
        z = x * 2
        z.register_hook(lambda g: g * slope + (1.0 if slope == 1.0 else 0.0))
        return z.sin()

    def penalty(f: Any, slope: float, x: weft.Tensor) -> weft.Tensor:
        (grad,) = weft.autograd.grad((f(x, slope) ** 2).sum(), x, create_graph=True)
        return weft.autograd.grad((grad * grad).sum(), x)[0]

    for slope, is_same in ((3.0, True), (1.0, False)):
        whole, x = weft.compile(lambda x, slope=slope: penalty(forward, slope, x)), weft.ones(2, requires_grad=True)
        expected = penalty(forward, slope, x)
        assert weft.allclose(whole(x), expected)
        assert weft.allclose(penalty(weft.compile(forward), slope, x), expected) is is_same


def test_last_bits(rng: RNG) -> None:
    a, b = (
        weft.from_numpy(rng.normal(size=(int(rng.integers(2, 40)), 70)).astype(np.float32)) for _ in range(1)
        for _ in range(2)
    )
    b = b[:1].expand_as(a)
    exact = lambda a, b: (a + b, a - b, a * b, a / b, (a > b).float())  # noqa: E731
    for got, want in zip(weft.compile(exact)(a, b), exact(a, b), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())
    close = lambda a: (a.exp(), a.sum(), a.softmax(-1))  # noqa: E731
    for got, want in zip(weft.compile(close)(a), close(a), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-5, atol=1e-6)
    threads = weft.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3):
            weft.set_num_threads(count)
            results.append([t.numpy() for t in weft.compile(close)(a)])
    finally:
        weft.set_num_threads(threads)
    for other in results[1:]:
        for x, y in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(x, y)


def test_modes_and_attributes() -> None:
    seen: list[Any] = []

    class Log(weft.overrides.WeftFunctionMode):
        def __weft_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = weft.ones(2, requires_grad=True)
    with Log():
        x.shape, x.grad, x.requires_grad, x.numel()
        x.double(), x[0]
    assert seen == [weft.Tensor.double, weft.Tensor.__getitem__]


class Wrapped(weft.Tensor):
    asked: list[str] = []  # noqa: RUF012

    @staticmethod
    def __new__(cls: Any, inner: weft.Tensor) -> Any:
        out = weft.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        out.inner = inner
        return out

    def __tensor_flatten__(self) -> Any:
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Wrapped(inner["inner"])

    @classmethod
    def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.asked.append(func.__name__)
        return Wrapped(func(*[a.inner if isinstance(a, Wrapped) else a for a in args], **(kwargs or {})))


def test_wrappers_among_results() -> None:
    def part(x: Any, side: str) -> Any:
        if isinstance(x, Pair):
            return getattr(x, side)
        return type(x)(part(i, side) for i in x) if isinstance(x, (list, tuple)) else x

    class Pair(weft.Tensor):
        @staticmethod
        def __new__(cls, a: Any, b: Any) -> Any:
            return weft.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)

        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

        def __tensor_flatten__(self) -> Any:
            return ["a", "b"], None

        @staticmethod
        def __tensor_unflatten__(inner: Any, meta: Any, size: Any, stride: Any) -> Any:
            return Pair(inner["a"], inner["b"])

        @classmethod
        def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            a, b = (func(*part(args, side), **(kwargs or {})) for side in "ab")
            return Pair(a, b) if isinstance(a, weft.Tensor) else a

    def forward(x: Any) -> Any:
        y = x * 2
        return (y * y).sum(), y

    x = Pair(weft.ones(2), weft.ones(2)).requires_grad_()
    z, y = forward(x)
    assert weft.autograd.grad(z, y)[0].a.tolist() == [4.0, 4.0]
    z, y = weft.compile(forward)(x)
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        weft.autograd.grad(z, y)
    plain = weft.ones(2, requires_grad=True)
    z, y = weft.compile(forward)(plain)
    assert weft.autograd.grad(z, y)[0].tolist() == [4.0, 4.0]


def test_detached_wrappers() -> None:
    x = Wrapped(weft.ones(2))
    Wrapped.asked.clear()
    for out in (x.detach(), x.data):
        assert type(out) is Wrapped and out.inner is x.inner
    assert Wrapped.asked == []


def test_bases_of_subclasses() -> None:
    class Meters(weft.Tensor):
        pass

    assert Meters.__bases__ != (weft.Tensor,) and issubclass(Meters, weft.Tensor)


def test_names_of_tensors() -> None:
    class Meters(weft.Tensor):
        pass

    length = weft.ones(2).as_subclass(Meters)
    for name in ("_data", "_storage", "_view", "_autograd"):
        with pytest.raises(RuntimeError, match="use another one"):
            setattr(length, name, weft.zeros(2))
    length.inner_data = weft.zeros(2)
    assert length.tolist() == [1.0, 1.0]


def test_dispatch_runs_at_capture() -> None:
    f = weft.compile(lambda x: x * 2)
    Wrapped.asked.clear()
    for _ in range(3):
        assert f(Wrapped(weft.ones(2))).inner.tolist() == [2.0, 2.0]
    assert Wrapped.asked == ["mul.Tensor"]


def test_in_place_on_overlapping_memory() -> None:
    def shift(x: Any) -> Any:
        x[1:].copy_(x[:-1])
        return x * 1

    def turn(x: Any) -> Any:
        square = x[:4].view(2, 2)
        square.add_(square.t())
        return x * 1

    def out(x: Any) -> Any:
        weft.add(x[:-1], 1, out=x[1:])
        return x * 1

    cases = ((shift, [0.0, 0, 1, 2, 3]), (turn, [0.0, 3, 3, 6, 4]), (out, [0.0, 1, 2, 3, 4]))
    for function, expected in cases:
        for run in (function, weft.compile(function), weft.compile(function, backend="interpret")):
            assert run(weft.arange(5.0)).tolist() == expected
    for run in (lambda x: x.expand(3, 5).add_(1), weft.compile(lambda x: x.expand(3, 5).add_(1)), weft.compile(
        lambda x: x.add_(1)
    )):
        with pytest.raises(
            RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"
        ):
            run(weft.arange(5.0).expand(3, 5))


def _written_behind_a_loop(x: weft.Tensor, s: float, count: int) -> weft.Tensor:
    t = x * 2
    for _ in range(count):
        t = weft.tanh(t * s)
    t[1:].add_(x[1:])
    return t * 1


def test_values_that_a_scripted_loop_saves(rng: RNG) -> None:
    values, count = rng.uniform(0.2, 1, 3), 40
    scripted = weft.jit.script(_written_behind_a_loop)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        _written_behind_a_loop(weft.tensor(values).requires_grad_(), 0.9, count).sum().backward()
    for _ in range(3):
        x = weft.tensor(values).requires_grad_()
        result = scripted(x, 0.9, count)
    result.sum().backward()
    expected, slope = values * 2, np.full(3, 2.0)
    for _ in range(count):
        expected = np.tanh(expected * 0.9)
        slope = slope * 0.9 * (1 - expected**2)
    np.testing.assert_allclose(x.grad.numpy(), slope + np.array([0, 1, 1]), 1e-9)


def test_frozen_constants() -> None:
    class Adds(weft.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = weft.nn.Parameter(weft.ones(2))
            self.calls = 0

        def forward(self, x: weft.Tensor) -> weft.Tensor:
            return x + self.w

        @weft.jit.export
        def counted(self, x: weft.Tensor) -> weft.Tensor:
            self.calls += 1
            return x + self.w

    scripted = weft.jit.script(Adds()).eval()
    frozen = weft.jit.freeze(scripted)
    with weft.no_grad():
        scripted.w += 1
    assert frozen(weft.zeros(2)).tolist() == [1.0, 1.0] and scripted(weft.zeros(2)).tolist() == [2.0, 2.0]
    with pytest.raises(weft.WeftError, match=r"the program writes self\.calls"):
        weft.jit.freeze(scripted, ["counted"])


def test_traces_of_what_is_called_later() -> None:
    class Doubled(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: weft.Tensor) -> Any:
            return grad * (2 if ctx.needs_input_grad[0] else 1)

    runs: list[int] = []

    def counted(x: weft.Tensor) -> weft.Tensor:
        runs.append(1)
        return x.sin()

    def function(x: weft.Tensor) -> weft.Tensor:
        return Doubled.apply(x) + weft.utils.checkpoint.checkpoint(counted, x, use_reentrant=False) * 0

    traced = weft.jit.trace(function, (weft.ones(2),), check_trace=False)
    file = io.BytesIO()
    weft.jit.save(traced, file)
    file.seek(0)
    before = len(runs)
    x = weft.ones(3, requires_grad=True)
    weft.jit.load(file)(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0, 2.0] and len(runs) == before
    with pytest.warns(weft.jit.TracerWarning, match="requires_grad"):
        weft.jit.trace(lambda x: x * 2 if x.requires_grad else x, (weft.ones(2),), check_trace=False)


def test_compiled_functions_and_meta() -> None:
    double = weft.compile(lambda x: x * 2)
    assert double(weft.ones(3, device="meta")).device == "meta" and not double.entries
    outside = weft.ones(3, device="meta")
    for function in (lambda x: x + outside, lambda x: weft.ones(3, device="meta"), lambda x: x.to("meta")):
        with pytest.raises(CaptureError, match="meta device"):
            weft.compile(function)(weft.ones(3))


def test_sums_that_overflow_on_the_way() -> None:
    generator = np.random.default_rng(5)
    rows, columns = int(generator.integers(2, 40)), int(generator.integers(20, 90))
    drawn = (generator.uniform(0.2, 1, (rows, columns)) * generator.choice([-1, 1], (rows, columns))).astype(np.float32)
    summed = weft.compile(lambda x: (x.sum(1), x.mean(1), x.mean(0)))
    for scale in (3e38 / columns / rows, 1e38):
        x = drawn * np.float32(scale)
        fits = scale < 1e37
        truth = [f(x.astype(np.float64), axis=axis) for f, axis in ((np.sum, 1), (np.mean, 1), (np.mean, 0))]
        for found in (summed(weft.from_numpy(x)), (t(weft.from_numpy(x)) for t in _SUMS)):
            for value, right in zip(found, truth, strict=True):
                number = value.numpy().astype(np.float64)
                close = np.isclose(number, right, rtol=1e-4, atol=1e-6 * scale * columns)
                assert (close | (not fits) & ~np.isfinite(number)).all()


_SUMS = (lambda x: x.sum(1), lambda x: x.mean(1), lambda x: x.mean(0))
