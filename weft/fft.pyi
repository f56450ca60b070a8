"""weft.fft. Written by scripts/make_stubs.py from the entries; not to be edited."""

# mypy: disable-error-code="overload-overlap, override, misc, no-redef, assignment, explicit-override"
# ruff: noqa

from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str, tuple as _tuple
from collections.abc import Sequence
from typing import Any, NamedTuple, Union, overload

from weft.tensor.size import Size
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType
from weft.runtime.generator import Generator

_Number = Union[_int, _float, _complex]


def irfft(input: Tensor, n: _int | None = ..., dim: _int = ..., norm: _str | None = ..., *, out: Tensor | None = ...) -> Tensor: ...
def rfft(input: Tensor, n: _int | None = ..., dim: _int = ..., norm: _str | None = ..., *, out: Tensor | None = ...) -> Tensor: ...
