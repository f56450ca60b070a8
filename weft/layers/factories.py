"""Factories as users call them: the entries, with requires_grad=, device= and the options that PyTorch accepts and weft has one value for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from weft.layers import abstract
from weft.layers.outputs import write_out
from weft.ops.geometry import Geometry, contiguous_strides
from weft.ops.layout import like_strides
from weft.ops.overrides import armed, handle, overriding
from weft.ops.packet import aten
from weft.ops.route import default_route
from weft.runtime.storage import Storage
from weft.support.errors import Unsupported
from weft.tensor.device import usable
from weft.tensor.meta import DEVICE as META
from weft.tensor.meta import is_meta, meta_tensor
from weft.tensor.meta import like as meta_like
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

NAMES = (
    "zeros", "ones", "full", "empty", "arange", "linspace", "logspace", "eye", "empty_strided", "tril_indices", "triu_indices", "rand", "randn",
    "randint", "randperm", "normal", "scalar_tensor", "hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window",
)
LIKE_NAMES = ("zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "randint_like")
NEW_NAMES = ("new_zeros", "new_ones", "new_full", "new_empty")
_LAYOUTS = (None, "weft.strided")
Make = Callable[..., Tensor]


def on_device(device: Any) -> AbstractContextManager[None]:
    """Within the block, factories make tensors on this device."""
    if device is None:
        return nullcontext()
    return default_route(abstract.run) if usable(device).type == META else nullcontext()


def _factory(name: str) -> Make:
    def function(
        *args: Any, requires_grad: bool = False, device: Any = None, layout: Any = None, pin_memory: bool = False, memory_format: Any = None,
        out: Any = None, **kwargs: Any,
    ) -> Tensor:
        if armed:
            given = _given(kwargs, requires_grad=requires_grad, device=device, out=out)
            asked = overriding(args, given)
            if asked is not None:
                return handle(function, asked, args, given)
        _check_layout(name, layout)
        if out is not None and not any(isinstance(a, Tensor) for a in args):
            kwargs.setdefault("dtype", out.dtype)
        with on_device(device):
            made: Tensor = getattr(aten, name)(*args, **kwargs)
        return _finished(name, made, requires_grad, out)

    return _named(function, name)


def _like_factory(name: str) -> Make:
    def function(
        input: Tensor, *args: Any, requires_grad: bool = False, device: Any = None, layout: Any = None, pin_memory: bool = False,
        memory_format: Any = None, **kwargs: Any,
    ) -> Tensor:
        if armed:
            given = _given(kwargs, requires_grad=requires_grad, device=device)
            asked = overriding((input, *args), given)
            if asked is not None:
                return handle(function, asked, (input, *args), given)
        _check_layout(name, layout)
        source = _placed(input, device)
        made: Tensor = getattr(aten, name)(source, *args, **kwargs)
        if memory_format in (None, "preserve_format"):
            made = _laid_out_like(made, input)
        return _finished(name, made, requires_grad, None)

    return _named(function, name)


def _new_factory(name: str) -> Make:
    def function(
        self: Tensor, *args: Any, requires_grad: bool = False, device: Any = None, layout: Any = None, pin_memory: bool = False, **kwargs: Any
    ) -> Tensor:
        if armed:
            given = _given(kwargs, requires_grad=requires_grad, device=device)
            asked = overriding((self, *args), given)
            if asked is not None:
                return handle(function, asked, (self, *args), given)
        _check_layout(name, layout)
        return _finished(name, getattr(aten, name)(_placed(self, device), *args, **kwargs), requires_grad, None)

    return _named(function, name)


def _given(kwargs: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The keyword arguments of a call, with the options that differ from their defaults."""
    return {**kwargs, **{name: value for name, value in options.items() if value is not None and value is not False}}


def _named(function: Make, name: str) -> Make:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"See the entry aten::{name}; also takes requires_grad= and device=."
    return function


def _check_layout(name: str, layout: Any) -> None:
    if layout not in _LAYOUTS:
        raise Unsupported(f"{name}: layout {layout} is not offered; weft has strided tensors")


def _finished(name: str, made: Tensor, requires_grad: bool, out: Any) -> Tensor:
    if out is not None:
        return write_out(name, made, out)
    return made.requires_grad_() if requires_grad else made


def _placed(source: Tensor, device: Any) -> Tensor:
    """A tensor with the source's type on the device (the value does not matter)."""
    if device is None or not isinstance(source, Tensor):
        return source
    where = usable(device).type
    if where == META:
        return source if is_meta(source) else meta_like(source)
    if where == "cpu" and is_meta(source):
        return aten.empty(source.dims, dtype=source.dtype)
    return source


def _laid_out_like(made: Tensor, source: Any) -> Tensor:
    """What a `*_like` factory made, with its elements in the same order in memory as the source's."""
    if not isinstance(source, Tensor) or (type(source._data) is np.ndarray and source._data.flags.c_contiguous):
        return made
    if type(made._data) is np.ndarray and (type(source._data) is np.ndarray or is_meta(source)):
        strides = like_strides(source.geometry())
        if strides != contiguous_strides(source.dims):
            size = made._data.dtype.itemsize
            memory = np.empty(made._data.size, made._data.dtype)
            laid = np.ndarray(made._data.shape, memory.dtype, memory, 0, tuple(s * size for s in strides)) if memory.size else made._data
            laid[...] = made._data
            made._data, made._storage = laid, Storage(laid)
        return made
    if is_meta(made):
        return meta_tensor(made.type_, Geometry(made.dims, like_strides(source.geometry())))
    return made if modes.capture is None else modes.capture.lay_out_like(made, source)


FACTORIES: dict[str, Make] = {name: _factory(name) for name in NAMES} | {name: _like_factory(name) for name in LIKE_NAMES}


def install() -> None:
    """Put the factories that are methods on Tensor."""
    for name in NEW_NAMES:
        made = _new_factory(name)
        made.asks = True  # type: ignore[attr-defined]
        setattr(Tensor, name, made)
