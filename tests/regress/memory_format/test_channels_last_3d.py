"""Volumes with their channels innermost: asked for everywhere, and kept by what PyTorch 2.13 keeps them in. A memory
format that a factory or Module.to() took was ignored before, and cat, stack and roll lost that of images, too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft.func import functionalize

F = weft.nn.functional
LAST = {4: weft.channels_last, 5: weft.channels_last_3d}
KEPT: dict[str, Callable[[weft.Tensor], weft.Tensor]] = {
    "relu": lambda x: F.relu(x) + 1,
    "conv": lambda x: F.conv3d(x, x.new_ones(5, x.shape[1], 2, 2, 2), x.new_ones(5)),
    "grouped": lambda x: F.conv3d(x, x.new_ones(x.shape[1], 1, 1, 2, 2), groups=x.shape[1]),
    "transposed": lambda x: F.conv_transpose3d(x, x.new_ones(x.shape[1], 2, 2, 2, 2), stride=2),
    "max_pool": lambda x: F.max_pool3d(x, 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "upsampled": lambda x: F.interpolate(x, scale_factor=2),
    "padded": lambda x: F.pad(x, (1, 1, 0, 1)),
    "cat": lambda x: weft.cat([x, x + 1], 1),
    "roll": lambda x: x.roll(1, 2),
}
LOST: dict[str, Callable[[weft.Tensor], weft.Tensor]] = {
    "avg_pool": lambda x: F.avg_pool3d(x, 2),
    "adaptive_avg_pool": lambda x: F.adaptive_avg_pool3d(x, 2),
    "instance_norm": lambda x: F.instance_norm(x),
    "cat of two orders": lambda x: weft.cat([x, x.contiguous()], 1),
    "contiguous": lambda x: x.contiguous(),
}


def volumes(rng: np.random.Generator) -> weft.Tensor:
    sizes = [int(n) for n in rng.integers(4, 7, 3)]
    return weft.from_numpy(rng.normal(size=(2, int(rng.integers(2, 5)), *sizes)).astype(np.float32))


@pytest.mark.parametrize("name", [*KEPT, *LOST])
def test_results_lie_as_pytorch_s_in_every_mode(name: str, rng: np.random.Generator) -> None:
    function = KEPT[name] if name in KEPT else LOST[name]
    compiled, split = weft.compile(function), weft.compile(function, split=True)
    for _ in range(2):
        plain = volumes(rng)
        x = plain.to(memory_format=weft.channels_last_3d)
        wanted = function(plain).numpy()
        for mode in (function, functionalize(function), compiled, split):
            out = mode(x)
            np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-4, atol=1e-5)
            assert out.is_contiguous(memory_format=weft.channels_last_3d) is (name in KEPT), (name, out.stride())
            assert out.is_contiguous() is (name in LOST)
        deferred = function(x.to("lazy"))
        assert deferred.is_contiguous(memory_format=weft.channels_last_3d) is (name in KEPT)


@pytest.mark.parametrize("rank", [4, 5])
def test_what_takes_a_memory_format(rank: int) -> None:
    dims, last = (2, 3, 5, 4, 6)[:rank], LAST[rank]
    order = (0, *range(2, rank), 1)
    strides = weft.empty([dims[i] for i in order]).permute([order.index(i) for i in range(rank)]).stride()
    plain = weft.arange(float(np.prod(dims))).reshape(dims)
    made = [
        plain.to(memory_format=last), plain.contiguous(memory_format=last), plain.clone(memory_format=last),
        plain.double(memory_format=last), weft.empty(dims, memory_format=last),
        weft.empty(0).resize_(dims, memory_format=last), weft.zeros_like(plain, memory_format=last),
        weft.compile(lambda x: x.to(memory_format=last) * 2)(plain),
        weft.jit.trace(lambda x: x.contiguous(memory_format=last) * 2, (plain,))(plain),
    ]
    assert [m.stride() for m in made] == [strides] * len(made)
    assert weft.equal(made[0], plain) and weft.equal(made[-1], plain * 2)
    assert weft.empty_like(made[0]).stride() == strides
    assert weft.empty(0).resize_as_(made[0], memory_format="preserve_format").stride() == strides
    assert weft.zeros_like(made[0], memory_format=weft.contiguous_format).is_contiguous()
    other = LAST[9 - rank]
    assert not plain.is_contiguous(memory_format=other)
    for make in (plain.to, plain.contiguous, lambda memory_format: weft.empty(dims, memory_format=memory_format)):
        with pytest.raises(weft.errors.ShapeError, match=f"required rank {9 - rank} tensor to use {other}"):
            make(memory_format=other)


def test_a_module_s_parameters_are_laid_out() -> None:
    layers = [weft.nn.Conv2d(3, 4, 3), weft.nn.BatchNorm2d(4), weft.nn.Flatten(), weft.nn.Linear(16, 2)]
    model = weft.nn.Sequential(*layers)
    x = weft.randn(2, 3, 4, 4)
    before, weight = model(x), model[0].weight
    step = weft.compile(lambda x: model(x))
    step(x)
    assert model.to(memory_format=weft.channels_last) is model and model[0].weight is weight
    assert weight.stride() == (27, 1, 9, 3) and model[3].weight.is_contiguous()
    for run in (model, step):
        np.testing.assert_allclose(run(x).detach().numpy(), before.detach().numpy(), rtol=1e-5, atol=1e-6)
        assert model[:2](x).is_contiguous(memory_format=weft.channels_last)
    model.to(weft.float64, memory_format=weft.contiguous_format)
    assert weight.is_contiguous() and weight.dtype is weft.float64
    with pytest.raises(weft.errors.ShapeError, match="required rank 4"):
        weft.nn.Conv3d(2, 3, 2).to(memory_format=weft.channels_last)


@pytest.mark.parametrize("device", ["cpu", "lazy", "meta"])
def test_stacked_images(device: str) -> None:
    """torch 2.13: the new dim lies around that at which it is put; at the end the result is row-major."""
    x = weft.ones(2, 4, 6, 8, device=device).contiguous(memory_format=weft.channels_last)
    assert [weft.stack([x, x], dim).stride() for dim in range(5)] == [
        (384, 192, 1, 32, 4), (384, 4, 1, 64, 8), (384, 1, 192, 32, 4), (384, 1, 64, 32, 4), (384, 96, 16, 2, 1)
    ]
    assert [weft.cat([x, x], dim).stride() for dim in range(4)] == [
        (192, 1, 32, 4), (384, 1, 64, 8), (384, 1, 32, 4), (384, 1, 64, 4)
    ]
    assert weft.stack([x, x.contiguous()]).is_contiguous() and weft.cat([x.contiguous(), x]).is_contiguous()
