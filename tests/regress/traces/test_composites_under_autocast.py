"""A composite within autocast is recorded in a trace with the casts that it makes, and for other sizes than those of
the example; so are functions of weft.linalg, and factories on the lazy device."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor
from weft.nn import functional as F

_W = np.random.default_rng(3).uniform(-1, 1, (4, 4)).astype(np.float32)


def _weight(x: Tensor) -> Tensor:
    return weft.tensor(_W, device=x.device)


# x: (n, 4)
_CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "detach": lambda x: x.detach() * 2 + x, "mask": lambda x: x[x.detach() > 0].sum() * x,
    "size_of_mask": lambda x: x * (weft.nonzero(x.detach() > 0).shape[0] * 0.5),
    "channels": lambda x: F.dropout1d(x[:, :, None].expand(-1, 4, 3), 0.0, True).mean(2) * x,
    "flatten": lambda x: x.flatten() * 2, "group_norm": lambda x: F.group_norm(x[:, :, None], 2),
    "instance_norm": lambda x: F.instance_norm(x[None].transpose(1, 2)),
    "einsum": lambda x: weft.einsum("ij,kj->ik", x, x),
    "einsum_weight": lambda x: weft.einsum("bi,ij->bj", x, _weight(x)), "inner": lambda x: weft.inner(x, x),
    "tensordot": lambda x: weft.tensordot(x, x, ([0], [0])), "kron": lambda x: weft.kron(x, _weight(x)),
    "cov": lambda x: x.T.cov(), "repeat_interleave": lambda x: x.repeat_interleave(2, 0) * 2,
    "take_along_dim": lambda x: weft.take_along_dim(x, x.argsort(0), 0) * 1.0,
    "diag_embed": lambda x: weft.diag_embed(x),
    "vander": lambda x: weft.vander(x[:, 0], 3), "chunk": lambda x: x.chunk(2, 0)[0] * 2,
    "tensor_split": lambda x: x.tensor_split(2)[0] * 2, "unflatten": lambda x: x.unflatten(1, (2, 2)) * 2,
    "reshape_as": lambda x: x.T.reshape_as(x), "expand_as": lambda x: x[:1].expand_as(x) * 2,
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x[None].transpose(1, 2), 2),
    "interpolate": lambda x: F.interpolate(x[None].transpose(1, 2), scale_factor=1.5, mode="linear"),
    "interpolate_to": lambda x: F.interpolate(x[None].transpose(1, 2), size=7, mode="linear"),
    "embedding": lambda x: F.embedding(weft.arange(x.shape[0], device=x.device) % 3, _weight(x)),
    "normalize": lambda x: F.normalize(x, dim=0),
    "meshgrid": lambda x: weft.meshgrid(x[:, 0], x[:, 1], indexing="ij")[0],
    "cross": lambda x: weft.linalg.cross(x[:, :3], x[:, 1:]),
    "multi_dot": lambda x: weft.linalg.multi_dot([x, _weight(x), _weight(x)]),
    "bilinear": lambda x: F.bilinear(x, x, _weight(x).expand(3, 4, 4)), "softmax": lambda x: F.softmax(x, 0),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x * 2 + 1, dim=0),
    "unfold": lambda x: F.unfold(x[None, None], 2),
}  # fmt: skip


@pytest.mark.parametrize("name", _CALLS)
@pytest.mark.parametrize("device", ["cpu", "lazy"])
def test_traced_for_other_sizes(name: str, device: str, rng: np.random.Generator) -> None:
    def step(x: Tensor) -> Any:
        with weft.autocast("cpu", dtype=weft.bfloat16):
            return _CALLS[name](x)

    def drawn(size: int) -> np.ndarray:
        return rng.uniform(-1, 1, (size, 4)).astype(np.float32)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # (the weight is a constant)
        traced = weft.jit.trace(step, (weft.tensor(drawn(5)).to(device),), check_trace=False)
    file = io.BytesIO()
    weft.jit.save(traced, file)
    file.seek(0)
    loaded = weft.jit.load(file)
    for size in (5, 8, 3):
        x = weft.tensor(drawn(size)).to(device)
        expected = step(x).cpu()
        for program in (traced, loaded):
            result = program(x).cpu()
            assert result.dtype is expected.dtype
            np.testing.assert_allclose(result.float().numpy(), expected.float().numpy(), 2e-2, 1e-2)
