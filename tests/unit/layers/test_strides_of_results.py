"""Strides of results whose operands lie permuted or have gaps, as PyTorch 2.13 gives them, in every mode. The table's
strides were taken from PyTorch; what it says of sizes of 1 is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F

Program = Callable[[Any, Callable[..., Any]], Any]  # of the operand, and of what makes a tensor beside it

PROGRAMS: dict[str, Program] = {
    "rows": lambda x, t: x[t(1, 0, 1)],
    "columns": lambda x, t: x[:, t(1, 0)],
    "last": lambda x, t: x[..., t(1, 0)],
    "matrix of rows": lambda x, t: x[t(1, 0, 1, 0).view(2, 2)],
    "turned matrix of rows": lambda x, t: x[t(1, 0, 1, 0, 1, 1).view(2, 3).t()],
    "turned matrix within": lambda x, t: x[:, t(1, 0, 1, 0, 1, 1).view(2, 3).t()],
    "two apart": lambda x, t: x[t(1, 0), :, t(0, 1)],
    "two together": lambda x, t: x[:, t(1, 0), t(0, 1)],
    "mask": lambda x, t: x[:, t(1, 0, 1) == 1],
    "nonzero": lambda x, t: x.nonzero(),
    "nonzero as tuple": lambda x, t: x.nonzero(as_tuple=True)[1],
    "argwhere": lambda x, t: weft.argwhere(x),
    "put": lambda x, t: x.put(t(1, 0), t(2.0, 3.0)),
    "index_put": lambda x, t: x.index_put((t(1, 0),), t(2.0)),
    "take": lambda x, t: x.take(t(1, 0, 1, 0, 1, 1).view(2, 3).t()),
    "logsigmoid": lambda x, t: F.logsigmoid(x),
    "batch_norm": lambda x, t: F.batch_norm(x, None, None, training=True),
    "batch_norm of old": lambda x, t: F.batch_norm(x, t(*[0.0] * x.shape[1]), t(*[1.0] * x.shape[1])),
    "instance_norm": lambda x, t: F.instance_norm(x),
    "group_norm": lambda x, t: F.group_norm(x, 1),
    "max_pool": lambda x, t: (F.max_pool1d if x.ndim == 3 else F.max_pool2d)(x, 2),
    "max_pool with places": lambda x, t: (F.max_pool1d if x.ndim == 3 else F.max_pool2d)(x, 2, return_indices=True)[1],
    "avg_pool": lambda x, t: (F.avg_pool1d if x.ndim == 3 else F.avg_pool2d)(x, 2),
    "adaptive_avg_pool": lambda x, t: (F.adaptive_avg_pool1d if x.ndim == 3 else F.adaptive_avg_pool2d)(x, 2),
    "interpolate": lambda x, t: F.interpolate(x, scale_factor=2),
    "reflected": lambda x, t: F.pad(x, (1, 1) * (x.ndim - 2), mode="reflect"),
}

# name of the operand: its sizes, and the order of its dims in memory, from the outermost
OPERANDS = {
    "plain": ((2, 3, 4), (0, 1, 2)), "inner turned": ((2, 3, 4), (0, 2, 1)), "outer turned": ((2, 3, 4), (1, 0, 2)),
    "reversed": ((2, 3, 4), (2, 1, 0)), "rolled": ((2, 3, 4), (1, 2, 0)), "image": ((2, 3, 4, 5), (0, 1, 2, 3)),
    "channels last": ((2, 3, 4, 5), (0, 2, 3, 1)), "one image": ((1, 3, 4, 5), (0, 2, 3, 1)),
    "channels first": ((2, 3, 4, 5), (1, 0, 2, 3)), "sides turned": ((2, 3, 4, 5), (0, 1, 3, 2)),
}  # fmt: skip
OF_IMAGES = (
    "batch_norm", "batch_norm of old", "instance_norm", "group_norm", "max_pool", "max_pool with places", "avg_pool",
    "adaptive_avg_pool", "interpolate", "reflected",
)

STRIDES: dict[str, dict[str, tuple[int, ...]]] = {
    "rows": {
        "plain": (12, 4, 1), "inner turned": (12, 1, 3), "outer turned": (12, 4, 1), "reversed": (12, 1, 3),
        "rolled": (12, 4, 1),
    },
    "columns": {
        "plain": (8, 4, 1), "inner turned": (8, 4, 1), "outer turned": (8, 4, 1), "reversed": (1, 2, 4),
        "rolled": (1, 2, 4),
    },
    "last": {
        "plain": (6, 2, 1), "inner turned": (6, 2, 1), "outer turned": (2, 4, 1), "reversed": (2, 4, 1),
        "rolled": (2, 4, 1),
    },
    "matrix of rows": {
        "plain": (24, 12, 4, 1), "inner turned": (24, 12, 1, 3), "outer turned": (24, 12, 4, 1),
        "reversed": (24, 12, 1, 3), "rolled": (24, 12, 4, 1),
    },
    "turned matrix of rows": {
        "plain": (12, 36, 4, 1), "inner turned": (12, 36, 1, 3), "outer turned": (12, 36, 4, 1),
        "reversed": (12, 36, 1, 3), "rolled": (12, 36, 4, 1),
    },
    "turned matrix within": {
        "plain": (24, 4, 12, 1), "inner turned": (24, 4, 12, 1), "outer turned": (24, 4, 12, 1),
        "reversed": (1, 2, 6, 12), "rolled": (1, 2, 6, 12),
    },
    "two apart": {
        "plain": (3, 1), "inner turned": (3, 1), "outer turned": (3, 1), "reversed": (3, 1), "rolled": (3, 1),
    },
    "two together": {
        "plain": (2, 1), "inner turned": (2, 1), "outer turned": (2, 1), "reversed": (2, 1), "rolled": (2, 1),
    },
    "mask": {
        "plain": (8, 4, 1), "inner turned": (8, 4, 1), "outer turned": (8, 4, 1), "reversed": (1, 2, 4),
        "rolled": (1, 2, 4),
    },
    "nonzero": {
        "plain": (1, 24), "inner turned": (1, 24), "outer turned": (1, 24), "reversed": (1, 24), "rolled": (1, 24),
    },
    "nonzero as tuple": {
        "plain": (1,), "inner turned": (1,), "outer turned": (1,), "reversed": (1,), "rolled": (1,),
    },
    "argwhere": {
        "plain": (1, 24), "inner turned": (1, 24), "outer turned": (1, 24), "reversed": (1, 24), "rolled": (1, 24),
    },
    "put": {
        "plain": (12, 4, 1), "inner turned": (12, 1, 3), "outer turned": (4, 8, 1), "reversed": (1, 2, 6),
        "rolled": (1, 8, 2),
    },
    "index_put": {
        "plain": (12, 4, 1), "inner turned": (12, 1, 3), "outer turned": (4, 8, 1), "reversed": (1, 2, 6),
        "rolled": (1, 8, 2),
    },
    "take": {
        "plain": (2, 1), "inner turned": (2, 1), "outer turned": (2, 1), "reversed": (2, 1), "rolled": (2, 1),
    },
    "logsigmoid": {
        "plain": (12, 4, 1), "inner turned": (12, 4, 1), "outer turned": (12, 4, 1), "reversed": (12, 4, 1),
        "rolled": (12, 4, 1),
    },
    "batch_norm": {
        "plain": (12, 4, 1), "inner turned": (12, 4, 1), "outer turned": (12, 4, 1), "reversed": (12, 4, 1),
        "rolled": (12, 4, 1), "image": (60, 20, 5, 1), "channels last": (60, 1, 15, 3), "one image": (60, 1, 15, 3),
        "channels first": (60, 20, 5, 1), "sides turned": (60, 20, 5, 1),
    },
    "batch_norm of old": {
        "plain": (12, 4, 1), "inner turned": (12, 4, 1), "outer turned": (12, 4, 1), "reversed": (12, 4, 1),
        "rolled": (12, 4, 1), "image": (60, 20, 5, 1), "channels last": (60, 1, 15, 3), "one image": (60, 1, 15, 3),
        "channels first": (60, 20, 5, 1), "sides turned": (60, 20, 5, 1),
    },
    "instance_norm": {
        "plain": (12, 4, 1), "inner turned": (12, 4, 1), "outer turned": (12, 4, 1), "reversed": (12, 4, 1),
        "rolled": (12, 4, 1), "image": (60, 20, 5, 1), "channels last": (60, 20, 5, 1), "one image": (60, 20, 5, 1),
        "channels first": (60, 20, 5, 1), "sides turned": (60, 20, 5, 1),
    },
    "group_norm": {
        "plain": (12, 4, 1), "inner turned": (12, 4, 1), "outer turned": (12, 4, 1), "reversed": (12, 4, 1),
        "rolled": (12, 4, 1), "image": (60, 20, 5, 1), "channels last": (60, 1, 15, 3), "one image": (60, 1, 15, 3),
        "channels first": (60, 20, 5, 1), "sides turned": (60, 20, 5, 1),
    },
    "max_pool": {
        "plain": (6, 2, 1), "inner turned": (6, 2, 1), "outer turned": (6, 2, 1), "reversed": (6, 2, 1),
        "rolled": (6, 2, 1), "image": (12, 4, 2, 1), "channels last": (12, 1, 6, 3), "one image": (12, 1, 6, 3),
        "channels first": (12, 4, 2, 1), "sides turned": (12, 4, 2, 1),
    },
    "max_pool with places": {
        "plain": (6, 2, 1), "inner turned": (6, 1, 3), "outer turned": (6, 2, 1), "reversed": (6, 2, 1),
        "rolled": (6, 2, 1), "image": (12, 4, 2, 1), "channels last": (12, 1, 6, 3), "one image": (12, 1, 6, 3),
        "channels first": (12, 4, 2, 1), "sides turned": (12, 4, 2, 1),
    },
    "avg_pool": {
        "plain": (6, 2, 1), "inner turned": (6, 1, 3), "outer turned": (6, 2, 1), "reversed": (6, 2, 1),
        "rolled": (6, 2, 1), "image": (12, 4, 2, 1), "channels last": (12, 1, 6, 3), "one image": (12, 1, 6, 3),
        "channels first": (12, 4, 2, 1), "sides turned": (12, 4, 2, 1),
    },
    "adaptive_avg_pool": {
        "plain": (6, 2, 1), "inner turned": (6, 1, 3), "outer turned": (6, 2, 1), "reversed": (6, 2, 1),
        "rolled": (6, 2, 1), "image": (12, 4, 2, 1), "channels last": (12, 1, 6, 3), "one image": (12, 1, 6, 3),
        "channels first": (12, 4, 2, 1), "sides turned": (12, 4, 2, 1),
    },
    "interpolate": {
        "plain": (24, 8, 1), "inner turned": (24, 8, 1), "outer turned": (24, 8, 1), "reversed": (24, 8, 1),
        "rolled": (24, 8, 1), "image": (240, 80, 10, 1), "channels last": (240, 1, 30, 3),
        "one image": (240, 1, 30, 3), "channels first": (240, 80, 10, 1), "sides turned": (240, 80, 10, 1),
    },
    "reflected": {
        "plain": (18, 6, 1), "inner turned": (18, 6, 1), "outer turned": (18, 6, 1), "reversed": (18, 6, 1),
        "rolled": (18, 6, 1), "image": (126, 42, 7, 1), "channels last": (126, 1, 21, 3),
        "one image": (126, 1, 21, 3), "channels first": (126, 42, 7, 1), "sides turned": (126, 42, 7, 1),
    },
}  # fmt: skip


def operand(kind: str, device: str = "cpu") -> Any:
    """A tensor of the sizes, whose dims lie in the order."""
    sizes, order = OPERANDS[kind]
    values = np.random.default_rng(3).permutation(np.arange(1.0, 1.0 + np.prod(sizes))).astype(np.float32)
    packed = weft.from_numpy(values).clone().view(*[sizes[i] for i in order]).to(device)
    return packed.permute(*[order.index(i) for i in range(len(order))])


def beside(device: str) -> Callable[..., Any]:
    return lambda *values: weft.tensor(values if len(values) > 1 else values[0], device=device)


def strides(result: Any) -> tuple[Any, ...]:
    """Strides as numbers, None for a size of 1."""
    return tuple([None if d == 1 else int(s) for d, s in zip(result.shape, result.stride(), strict=True)])


MODES: dict[str, Callable[[Program, str], Any]] = {
    "eager": lambda f, kind: f(operand(kind), beside("cpu")),
    "with a gradient": lambda f, kind: f(operand(kind).requires_grad_(), beside("cpu")),
    "lazy": lambda f, kind: f(operand(kind, "lazy"), beside("lazy")),
    "split": lambda f, kind: weft.compile(lambda x: f(x, beside("cpu")), split=True)(operand(kind)),
    "functionalize": lambda f, kind: weft.func.functionalize(lambda x: f(x, beside("cpu")))(operand(kind)),
    "compile": lambda f, kind: weft.compile(lambda x: f(x, beside("cpu")), backend="interpret")(operand(kind)),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", STRIDES)
def test_strides_are_pytorchs(name: str, mode: str) -> None:
    for kind, expected in STRIDES[name].items():
        program = PROGRAMS[name]
        found, plain = MODES[mode](program, kind), program(operand(kind).contiguous(), beside("cpu"))
        given = tuple([None if d == 1 else s for d, s in zip(plain.shape, expected, strict=True)])
        assert strides(found) == given, kind
        np.testing.assert_allclose(
            found.detach().cpu().numpy(), plain.detach().numpy(), rtol=1e-4, atol=1e-5, err_msg=kind
        )


@pytest.mark.parametrize("name", [n for n in PROGRAMS if "nonzero" not in n and n not in ("mask", "argwhere")])
def test_strides_on_meta_are_those_of_arrays(name: str) -> None:
    for kind in STRIDES[name]:
        found = PROGRAMS[name](operand(kind, "meta"), beside("meta"))
        assert strides(found) == strides(MODES["eager"](PROGRAMS[name], kind))


def test_a_plan_lays_out_each_count_of_what_is_found() -> None:
    """What a call found is as long as its values say: strides of another call are not those of this one."""
    x = operand("reversed")
    for count in (3, 1, 2):
        mask = weft.tensor([i < count for i in range(3)])
        found = x[:, mask]
        assert found.stride() == (1, 2, 2 * count) and found.tolist() == x[:, :count].tolist()
        places = mask.expand(2, 3).nonzero()
        assert places.stride() == (1, 2 * count) and places[:, 1].tolist() == [*range(count)] * 2
