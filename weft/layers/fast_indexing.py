"""Indexing whose items are integers, slices, or tensors of integers beside whole dims, on dense tensors: short ways
to the operators that tensor/indexing.py would call. What they do not know, it does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

import weft.layers.walk as walk_module
from weft.layers.fast import entry_of, known_as
from weft.ops.overrides import plain_integers, plain_kinds
from weft.ops.packet import aten
from weft.ops.route import Route
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor, tensor_around

ndarray = np.ndarray
_WHOLE = slice(None)
_INDEX = np.dtype(np.int64)
_NUMBERS = frozenset((bool, int, float))
_SHOWING, _PARTS = frozenset((int, slice)), frozenset((int, type(None)))  # items that are views, and parts of slices


class ShortWays:
    """Where calls of operators go that indexing makes by itself, and the views that integers and slices give."""

    def __init__(self) -> None:
        self.select, self.slice, self.pick = aten.select.int.op, aten.slice.Tensor.op, aten.index.Tensor.op
        some = tensor_around(np.zeros(1))
        self.enter_select = entry_of(self.select, (some, 0, 0)) or walk_module.walk
        self.enter_slice = entry_of(self.slice, (some, 0, 0, 1, 1)) or walk_module.walk
        self.enter_pick = entry_of(self.pick, (some, (some,))) or walk_module.walk
        self.enter_put: Route = walk_module.inplace

    def through(self, around: Callable[[Route, bool], Route]) -> ShortWays:
        """The same ways, each through `around(way, whether it writes)`."""
        ways = copy(self)
        for name in ("enter_select", "enter_slice", "enter_pick"):
            setattr(ways, name, around(getattr(self, name), False))
        ways.enter_put = around(self.enter_put, True)
        return ways

    def take(self, ways: ShortWays) -> None:
        """Go as others do from now on."""
        vars(self).update(vars(ways))

    def show(self, x: Any, index: Any) -> Any:
        """x[index]; None where it is not known to be a view, or is all of x."""
        data, kind = x._data, type(index)
        if kind in plain_integers:
            if data.ndim and -data.shape[0] <= index < data.shape[0]:
                return self.enter_select(self.select, (x, 0, index))
            return None
        items = index if kind is tuple else (index,)
        if len(items) > data.ndim or not _SHOWING.issuperset(map(type, items)):
            return None
        view, dim = x, 0
        for item, size in zip(items, data.shape, strict=False):
            if type(item) is int:
                if not -size <= item < size:
                    return None
                view = self.enter_select(self.select, (view, dim, item))
                continue
            start, stop, step = item.start, item.stop, item.step
            if not (type(start) in _PARTS and type(stop) in _PARTS and type(step) in _PARTS):
                return None
            if step is None:
                step = 1
            elif step < 1:
                return None
            if start is not None or stop is not None or step != 1:
                view = self.enter_slice(self.slice, (view, dim, start, stop, step))
            dim += 1
        return None if view is x else view


def _getitem(slow: Callable[..., Any], ways: ShortWays) -> Callable[..., Any]:
    show = ways.show

    def method(self: Any, index: Any) -> Any:
        if type(self._data) is ndarray and type(self) in plain_kinds:
            view = show(self, index)
            if view is not None:
                return view
            indices = _indices(self._data, index if type(index) is tuple else (index,))
            if indices is not None:
                return ways.enter_pick(ways.pick, (self, indices))
        return slow(self, index)

    return known_as(slow, method)


def _setitem(slow: Callable[..., Any], ways: ShortWays) -> Callable[..., Any]:
    put, show = aten.index_put.default.op, ways.show

    def method(self: Any, index: Any, value: Any) -> None:
        data, kind = self._data, type(value)
        if type(data) is not ndarray or type(self) not in plain_kinds or modes.special is not None:
            return slow(self, index, value)  # a mode sees the operators that PyTorch's sees: an element is copied
        if kind in _NUMBERS:
            view = show(self, index)
            if view is None or (type(view._data) is ndarray and 0 in view._data.strides):
                return slow(self, index, value)  # (filling would do where assigning is refused)
            view.fill_(value)
            return None
        source = value._data if kind in plain_kinds else None
        if type(source) is not ndarray or source.dtype is not data.dtype:
            return slow(self, index, value)
        indices = _indices(data, index if type(index) is tuple else (index,))
        if indices is not None:
            if source.ndim <= _room(data, indices):
                ways.enter_put(put, (self, indices, value, False))
                return None
        else:
            view = show(self, index)
            if view is not None and source.ndim <= view._data.ndim:
                view.copy_(value)
                return None
        return slow(self, index, value)

    return known_as(slow, method)


def _indices(data: Any, items: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The items as a list of `aten::index`: tensors of integers, None for whole dims; None where there are others."""
    if len(items) > data.ndim:
        return None
    indices: list[Any] = []
    count = 0
    for item in items:
        if type(item) is Tensor:
            array = item._data
            if type(array) is not ndarray or array.dtype is not _INDEX or not array.ndim:
                return None
            indices.append(item)
            count = len(indices)
        elif type(item) is slice and item == _WHOLE:
            indices.append(None)
        else:
            return None
    return tuple(indices[:count]) if count else None


def _room(data: Any, indices: tuple[Any, ...]) -> int:
    """How many dims what they index has."""
    ranks = [i._data.ndim for i in indices if i is not None]
    return data.ndim - len(ranks) + max(ranks)


@functools.cache
def short_ways() -> ShortWays:
    """Those of this process."""
    return ShortWays()


def install() -> None:
    """Put the short ways on Tensor."""
    for name, short in (("__getitem__", _getitem), ("__setitem__", _setitem)):
        setattr(Tensor, name, short(getattr(Tensor, name), short_ways()))
