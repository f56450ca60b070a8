"""autocast: a block, or a function, in which operators compute in half precision where that serves; custom_fwd and
custom_bwd for custom Functions in it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from weft.amp.settings import (
    CPU,
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_enabled,
)
from weft.layers.autocast import is_cast
from weft.support.errors import ArgumentError, StateError
from weft.support.warn import warn
from weft.tensor.autocast import Autocast, cache, switch
from weft.tensor.modes import keeps_modes, modes
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
_DTYPES = (dt.bfloat16, dt.float16)


class autocast:
    """A block in which operands are cast before an operator computes: of products and convolutions to dtype, of losses,
    decompositions and the like to float32, of `cat`, `stack` and `index_copy` to the widest of theirs. Other operators
    take what comes. Tensors of float64 stay what they are, and so do parameters: what is cast is a copy, through which
    gradients go back. The call of backward belongs behind the block.

    device_type: "cpu"; for another one, which is not there, the block warns and does nothing. dtype: bfloat16 (the
    default) or float16; for others the block warns and does nothing. enabled: False for a block in which autocast is
    off. cache_enabled: keep the casts of weights until the outermost block ends. Usable as a decorator; blocks nest.
    Raises StateError for a type of device that there is no autocast for.
    """

    def __init__(
        self, device_type: str, dtype: DType | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ArgumentError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = cache.is_enabled if cache_enabled is None else cache_enabled
        self._enabled = enabled and _is_usable(device_type, self.fast_dtype)
        self._before: list[tuple[Any, bool]] = []

    def __enter__(self) -> autocast:
        self._before.append((modes.autocast, cache.is_enabled))
        if self.device == CPU:
            switch(Autocast(self._enabled, self.fast_dtype))
        autocast_increment_nesting()
        cache.is_enabled = self._cache_enabled
        return self

    def __exit__(self, *error: Any) -> None:
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        before, cache.is_enabled = self._before.pop()
        switch(before)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return keeps_modes(func, lambda: self)


def _is_usable(device_type: str, dtype: DType) -> bool:
    if device_type != CPU:
        warn(f"User provided device_type of '{device_type}', but {device_type.upper()} is not available. Disabling")
        return False
    if dtype not in _DTYPES:
        warn(
            "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
            "CPU Autocast only supports dtype of weft.bfloat16, weft.float16 currently."
        )
        return False
    return True


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: DType | None = None
) -> Callable[..., Any]:
    """A decorator for `forward` of a custom Function in a block of autocast. Without cast_inputs it runs as the block
    has it; with a dtype, arguments that are floats (none of float64) are cast to it, and autocast is off within.
    Raises StateError for a type of device that there is no autocast for."""
    _check_device(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    function = fwd

    @functools.wraps(function)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        is_on = is_autocast_enabled(device_type)
        ctx._dtype, ctx._fwd_used_autocast = get_autocast_dtype(device_type), is_on and cast_inputs is None
        if cast_inputs is None or not is_on:
            return function(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return function(ctx, *_cast(args, cast_inputs), **_cast(kwargs, cast_inputs))

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """A decorator for `backward` of a custom Function whose forward has custom_fwd: it runs with autocast as forward
    did. Raises StateError for a type of device that there is no autocast for."""
    _check_device(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    function = bwd

    @functools.wraps(function)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        if device_type != CPU:
            return function(ctx, *args, **kwargs)
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return function(ctx, *args, **kwargs)

    return backward


def _check_device(device_type: str) -> None:
    if not isinstance(device_type, str):
        raise ArgumentError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if not is_autocast_available(device_type):
        raise StateError(f"unknown device type for autocast: {device_type!r}")


def _cast(value: Any, dtype: DType) -> Any:
    """A value with the tensors in it cast."""
    if isinstance(value, Tensor):
        return value.to(dtype) if is_cast(value) else value
    if isinstance(value, (str, bytes, np.ndarray)):
        return value
    if isinstance(value, Mapping):
        return {_cast(k, dtype): _cast(v, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        cast = [_cast(v, dtype) for v in value]
        return type(value)(cast) if type(value) in (list, tuple) else type(value)(*cast)
    return value
