"""Numbers that Python has of a tensor's shape were constants of a trace, in silence: its strides and offset, `nbytes`,
`nelement`, `weft.numel`, the largest of its sizes, and tensors of the older constructors.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable

import numpy as np
import onnx
import pytest

import weft
import weft.jit
import weft.onnx
from weft import Tensor
from weft.jit.tracing.values import TracerWarning

FOLLOWED: dict[str, Callable[[Tensor], Tensor]] = {
    "stride": lambda x: x * x.t().contiguous().stride(0),
    "strides": lambda x: x * x.t().contiguous().stride()[0],
    "offset": lambda x: x * x[-1:].storage_offset(),
    "nbytes": lambda x: x * x.nbytes,
    "element_size": lambda x: x * (x.element_size() * x.nelement()),
    "numel": lambda x: x * weft.numel(x),
    "largest": lambda x: x * max(x.shape),
    "largest of a generator": lambda x: x * max(n + 1 for n in x.shape),
    "least": lambda x: x * min(x.shape),
    "older constructor": lambda x: weft.Tensor(x) * 2,
    "older constructor of sizes": lambda x: x + weft.Tensor(x.shape[0], 3).fill_(2.0),
    "typed constructor of sizes": lambda x: x + weft.FloatTensor(x.shape[0], 3).fill_(2.0),
    "older constructor of numbers": lambda x: x * weft.Tensor([x.shape[0], 1.0])[0],
    "as_strided": lambda x: x.contiguous().as_strided((x.shape[0],), (x.stride(0),)) * 2,
}
TOLD: dict[str, Callable[[Tensor], Tensor]] = {
    "same size": lambda x: x * (2 if x.is_same_size(weft.ones(4, 3)) else 1),
    "contiguous": lambda x: x * (2 if x.t().is_contiguous() else 1),
    "contained": lambda x: x * (2 if 3.0 in x else 1),
    "largest by a key": lambda x: x * max(x.shape, key=lambda n: -n),
    "storage": lambda x: x * x.untyped_storage().nbytes(),
    "typed storage": lambda x: x * len(x.storage()),
    "memory": lambda x: x * float(np.from_dlpack(x.detach()).sum()),
}
ROWS = (7, 5, 2)


def example() -> Tensor:
    return weft.arange(12.0).reshape(4, 3) + 1


@pytest.mark.parametrize("name", FOLLOWED)
def test_the_trace_computes_it(name: str) -> None:
    function = FOLLOWED[name]
    traced = weft.jit.trace(function, (example(),), check_trace=False)
    for rows in ROWS:
        x = weft.rand(rows, 3)
        assert weft.equal(traced(x), function(x))


@pytest.mark.parametrize("name", TOLD)
def test_a_warning_tells_of_it(name: str) -> None:
    with pytest.warns(TracerWarning):
        weft.jit.trace(TOLD[name], (example(),), check_trace=False)


@pytest.mark.parametrize("name", ["nbytes", "element_size", "numel", "largest", "least"])
def test_onnx_computes_it(name: str) -> None:
    traced = weft.jit.trace(FOLLOWED[name], (example(),), check_trace=False)
    file = io.BytesIO()
    weft.onnx.export(traced, (example(),), file, input_names=["x"], dynamic_axes={"x": {0: "rows"}})
    model = weft.onnx.load(onnx.load_from_string(file.getvalue()))
    for rows in ROWS:
        x = weft.rand(rows, 3)
        assert weft.equal(model(x), FOLLOWED[name](x))


def test_what_hangs_on_the_type_is_asked_without_a_warning() -> None:
    def function(x: Tensor) -> Tensor:
        assert x.dim() == x.ndim == 2 and x.element_size() == x.itemsize == 4
        assert x.is_floating_point() and not x.is_complex() and x.is_leaf and not x.is_cuda and x.get_device() < 0
        return x * x.dim()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weft.jit.trace(function, (example(),))
