"""Which back end answers a call: the one of the highest rank among those of its operands, the active capture's,
and that of plain tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from weft.layers.dense import DENSE
from weft.ops.op import Op
from weft.tensor.backend import Backend
from weft.tensor.modes import Floor, modes
from weft.tensor.tensor import Tensor

ndarray = np.ndarray


def backend_of(op: Op, args: tuple[Any, ...]) -> Backend:
    """The back end of an operator's call. (Of plain tensors it is known by the payload's type:
    an ndarray cannot name it.)"""
    capture = modes.capture
    backend: Backend = plain_backend() if capture is None else capture.backend
    for i in op.tensor_positions:
        a = args[i]
        if isinstance(a, Tensor):
            data = a._data
            if type(data) is not ndarray and data.backend.rank > backend.rank:
                backend = data.backend
    for i in op.tensor_list_positions:
        backend = backend_for(args[i] or (), backend)
    return backend


def plain_backend() -> Backend:
    """That of plain tensors on this thread."""
    special = modes.special
    return DENSE if special is None or not isinstance(special[0], Floor) else special[0].backend


def backend_for(values: Iterable[Any], backend: Backend | None = None) -> Backend:
    """The back end of a call on these tensors (what is no tensor counts for nothing), or `backend` if that ranks
    higher."""
    if backend is None:
        backend = plain_backend() if modes.capture is None else modes.capture.backend
    for a in values:
        if isinstance(a, Tensor):
            data = a._data
            if type(data) is not ndarray and data.backend.rank > backend.rank:
                backend = data.backend
    return backend
