"""DistributedDataParallel, as a type that programs ask about."""

from __future__ import annotations

from typing import Any

from weft.nn.modules.module import Module
from weft.support.errors import StateError


class DistributedDataParallel(Module):
    """Refused where it is made: weft computes in one process. Use the module itself."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        raise StateError(
            "DistributedDataParallel: there is no process group: weft computes in one process. Use the module itself."
        )
