"""Parameter: a tensor that a Module counts among its parameters when it is assigned as an attribute."""

from __future__ import annotations

from typing import Any

from weft.tensor.tensor import Tensor


class Parameter(Tensor):
    """A leaf tensor that requires grad by default. `Parameter(data)` shares the bytes of `data`."""

    _is_param = True

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        source = Tensor(_empty()) if data is None else data.detach()
        super().__init__(source._data)
        self._storage = source._storage
        if requires_grad:
            self.requires_grad_()


def _empty() -> Any:
    import numpy as np  # one use

    return np.zeros(0, np.float32)
