"""PyTorch's switches of how scripted programs fuse operators. weft's fuse what they can: the switches are
remembered, and change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from weft.support.errors import ValueProblem

_FUSERS = ("fuser0", "fuser1", "fuser2", "fuser3")
Strategy = Sequence[tuple[str, int]]


class ScriptWarning(Warning):
    """PyTorch's warning about a scripted program: a category that programs filter by."""


class _Fusion:
    strategy: Strategy = (("STATIC", 2), ("DYNAMIC", 10))


def set_fusion_strategy(strategy: Strategy) -> list[tuple[str, int]]:
    """Remember how often programs may be made again for other sizes: pairs of "STATIC" or "DYNAMIC" and a number.
    Returns what was set before. Raises ValueProblem."""
    for kind, _ in strategy:
        if kind not in ("STATIC", "DYNAMIC"):
            raise ValueProblem(f"FusionBehavior only supported 'STATIC' or 'DYNAMIC', got: {kind}")
    before, _Fusion.strategy = _Fusion.strategy, tuple(strategy)
    return list(before)


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """Within the block PyTorch would fuse with a back end of this name ("fuser0" to "fuser3"). Raises ValueProblem."""
    if name not in _FUSERS:
        raise ValueProblem(f"unrecognized fuser option (name: {name})")
    yield


class strict_fusion:
    """Within the block of a scripted function PyTorch would refuse what it cannot fuse: a mark."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: Any) -> None:
        return None
