"""The process's allocator, asked to keep what arrays let go: the next step of a program takes the same memory."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Final

LARGEST: Final = 32 << 20  # bytes of a block of the heap, the most that glibc lets one ask for; larger ones are mapped
KEPT: Final = 256 << 20  # bytes free at the heap's end that are not given back
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt


@cache
def keep_freed_memory() -> bool:
    """Ask glibc, once, to keep free memory at the heap's end; whether it does (docs/decisions/eager-fast-path.md).

    Other libraries are left alone, and so is one that the user has set by MALLOC_... or GLIBC_TUNABLES.
    """
    is_set = any(name.startswith("MALLOC_") for name in os.environ) or "malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if is_set or not sys.platform.startswith("linux"):
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(set_option(_MMAP_THRESHOLD, LARGEST) and set_option(_TRIM_THRESHOLD, KEPT))
