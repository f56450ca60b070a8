"""weft.version: the version, and what programs ask about the back ends that a build has. There are none:
weft computes on the CPU."""

from __future__ import annotations

__all__ = ["cuda", "debug", "git_version", "hip", "xpu"]

__version__ = "0.1.0"
debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version: str | None = None
