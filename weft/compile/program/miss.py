"""Why a program does not fit a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final


@final
@dataclass
class Miss:
    """Why a program does not fit a call. `depth` orders misses by how far the check came; `lift`: the numbers that
    changed; `leaf`: the argument's leaf that the text is about; `sizes`: the symbols of the sizes that it is about.
    """

    text: str
    depth: int
    lift: tuple[tuple[Any, Any], ...] = ()
    leaf: int | None = None
    sizes: tuple[str, ...] = ()
