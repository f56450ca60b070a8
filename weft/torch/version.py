"""The version that programs compare, `torch.__version__`: that of the PyTorch whose names and meanings weft has."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion", "cuda", "debug", "git_version", "hip", "xpu"]

debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version: str | None = None


class TorchVersion(str):
    """A version that is compared number by number: "2.13.0" > "2.9" and > (2, 9)."""

    def _pair(self, other: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The numbers of both, equally many."""
        mine, others = _numbers(str(self)), _numbers(other)
        length = max(len(mine), len(others))
        return mine + (0,) * (length - len(mine)), others + (0,) * (length - len(others))

    def __lt__(self, other: Any) -> bool:
        mine, others = self._pair(other)
        return mine < others

    def __le__(self, other: Any) -> bool:
        mine, others = self._pair(other)
        return mine <= others

    def __gt__(self, other: Any) -> bool:
        mine, others = self._pair(other)
        return mine > others

    def __ge__(self, other: Any) -> bool:
        mine, others = self._pair(other)
        return mine >= others

    def __eq__(self, other: object) -> bool:
        if str.__eq__(self, other) is True:
            return True
        if not isinstance(other, (str, tuple, list)):
            return False
        mine, others = self._pair(other)
        return mine == others

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _numbers(version: Any) -> tuple[int, ...]:
    """The numbers of a release: those of "2.13.0+cpu" are 2, 13, 0."""
    text = ".".join(map(str, version)) if isinstance(version, (tuple, list)) else str(version)
    return tuple(map(int, re.findall(r"\d+", text.partition("+")[0])))


__version__ = TorchVersion("2.13.0+weft")
