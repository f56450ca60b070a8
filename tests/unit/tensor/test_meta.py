"""Device meta: types, strides and views without bytes; what needs bytes is refused, and mixing devices is an error."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest

import weft


def sizes(n: int) -> tuple[int, ...]:
    return tuple(random.randint(2, 5) for _ in range(n))


FACTORIES = {
    "empty": lambda s: weft.empty(s, device="meta"),
    "zeros": lambda s: weft.zeros(s, device="meta"),
    "rand": lambda s: weft.rand(s, device="meta"),
    "full": lambda s: weft.full(s, 2.5, device="meta"),
    "moved": lambda s: weft.ones(s).to("meta"),
    "tensor": lambda s: weft.tensor(np.zeros(s, np.float32), device="meta"),
    "new": lambda s: weft.ones(1).new_zeros(s, device="meta"),
    "like": lambda s: weft.zeros_like(weft.ones(s), device="meta"),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_make_meta_tensors(name: str) -> None:
    shape = sizes(3)
    made = FACTORIES[name](shape)
    assert made.device == "meta" and tuple(made.shape) == shape and made.dtype is weft.float32
    assert made.stride() == weft.ones(shape).stride()


PROGRAMS = {
    "pointwise": lambda x: x.t() * 2 + x.t().exp(),
    "broadcast": lambda x: x + x[0],
    "promotion": lambda x: x.to(weft.int32) * 1.5,
    "comparison": lambda x: x > 0,
    "reduction": lambda x: x.sum(1, keepdim=True),
    "two results": lambda x: x.max(1),
    "softmax": lambda x: x.softmax(-1),
    "matmul": lambda x: x @ x.t(),
    "view": lambda x: x.t()[1:].unsqueeze(0),
    "reshape that copies": lambda x: x.t().reshape(-1),
    "reshape that views": lambda x: x.reshape(-1),
    "several views": lambda x: x.unbind(0),
    "composite": lambda x: weft.nn.functional.gelu(weft.nn.functional.layer_norm(x, x.shape[1:])),
    "constants inside": lambda x: x.tril() + weft.diag(x[:, 0].contiguous())[:, :1],
    "random": lambda x: weft.nn.functional.dropout(x, 0.5),
    "scan": lambda x: x.cumsum(0),
    "sort": lambda x: x.sort(0),
    "join": lambda x: weft.cat([x, x * 2], 1),
    "index": lambda x: x[[0, 1]],
    "select": lambda x: x[1, :2],
    "like": lambda x: weft.zeros_like(x.t()),
    "expand": lambda x: x.unsqueeze(0).expand(3, *x.shape),
    "in place": lambda x: x.clone().mul_(2),
    "written view": lambda x: x.clone().t().add_(1),
}


def flat(value: object) -> list[weft.Tensor]:
    return [value] if isinstance(value, weft.Tensor) else [t for v in value for t in flat(v)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", PROGRAMS)
def test_meta_says_what_the_cpu_gives(name: str) -> None:
    program = PROGRAMS[name]
    x = weft.randn(sizes(2))
    expected, found = flat(program(x)), flat(program(x.to("meta")))
    assert len(expected) == len(found)
    for a, b in zip(expected, found, strict=True):
        assert b.device == "meta"
        assert (
            (tuple(a.shape), a.dtype, a.stride(), a.storage_offset())
            == (tuple(b.shape), b.dtype, b.stride(), b.storage_offset())
        )


def test_layouts_follow_the_operands() -> None:
    x = weft.randn(sizes(4)).permute(random.sample(range(4), 4))
    for program in (lambda t: t + 1, lambda t: t * t[:1], weft.zeros_like, weft.clone, lambda t: t[::2].neg()):
        cpu, meta = program(x), program(x.to("meta"))
        counted = [n > 1 for n in cpu.shape]  # strides of dims of size 1 mean nothing
        assert (
            [s for s, c in zip(cpu.stride(), counted, strict=True) if c]
            == [s for s, c in zip(meta.stride(), counted, strict=True) if c]
        )


REFUSED = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: bool(x.sum()),
    "numpy": lambda x: x.numpy(),
    "array": lambda x: np.asarray(x),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu"),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "copy out": lambda x: weft.ones(x.shape).copy_(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_values_is_refused(name: str) -> None:
    with pytest.raises(NotImplementedError, match=r"no data|values"):
        REFUSED[name](weft.empty(sizes(2), device="meta"))


@pytest.mark.parametrize("mix", [
    lambda m, c: m + c, lambda m, c: c * m, lambda m, c: weft.cat([c, m]), lambda m, c: m.add_(c),
    lambda m, c: m @ c.t(),
])
def test_mixing_devices_is_an_error(mix: object) -> None:
    shape = sizes(2)
    with pytest.raises(RuntimeError, match="meta and cpu"):
        mix(weft.empty(shape, device="meta"), weft.ones(shape))  # type: ignore[operator]


def test_type_errors_are_the_operators_own() -> None:
    a, b = weft.empty(2, 3, device="meta"), weft.empty(2, 4, device="meta")
    with pytest.raises(RuntimeError, match="must match the size"):
        a + b
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        a[0].add_(a)
    with pytest.raises(RuntimeError, match="can't be cast"):
        a.to(weft.int64).mul_(1.5)


def test_writes_move_the_version_of_all_aliases() -> None:
    x = weft.empty(sizes(2), device="meta")
    view = x[0]
    view.add_(1)
    x.copy_(weft.ones(x.shape))
    assert x._version == view._version == 2


def test_gradients_have_types_too() -> None:
    x = weft.empty(sizes(2), device="meta", requires_grad=True)
    (x.exp() * x).sum(0).softmax(0).sum().backward()
    assert x.grad is not None and x.grad.device == "meta" and x.grad.shape == x.shape


def test_version_errors_are_those_of_eager() -> None:
    x = weft.empty(3, device="meta", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_copies_and_text() -> None:
    x = weft.empty(2, 3, device="meta", requires_grad=True)
    twin = copy.deepcopy(x)
    assert twin is not x and twin.requires_grad and twin.shape == x.shape
    assert repr(weft.empty(2, 3, device="meta")) == "tensor(..., device='meta', size=(2, 3))"
    assert (
        repr(weft.empty(2, device="meta", dtype=weft.int32))
        == "tensor(..., device='meta', size=(2,), dtype=weft.int32)"
    )


def test_back_to_the_cpu_by_type_only() -> None:
    x = weft.empty(sizes(3), device="meta").permute(2, 0, 1)
    made = weft.zeros_like(x, device="cpu")
    assert made.device == "cpu" and made.stride() == x.stride() and float(made.sum()) == 0.0
