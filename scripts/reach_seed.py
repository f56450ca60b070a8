"""Run a script with its seeds moved: `reach_seed.py BY SCRIPT ARGUMENTS`. What it gives to manual_seed, to NumPy and to
random is another number; a script without seeds starts from this one. 0 moves nothing."""

from __future__ import annotations

import random
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch


def moved(function: Callable[..., Any], by: int) -> Callable[..., Any]:
    """The function with its first argument, where it is an int, moved by 1000 times `by`."""

    def seed(value: Any = None, *others: Any, **named: Any) -> Any:
        return function(int(value) + 1000 * by if isinstance(value, int) else value, *others, **named)

    return seed


def name_operators() -> torch.library.Library:
    """Name torchvision's operators where its library, which is built for CUDA, does not load beside a PyTorch for the
    CPU: the package asks for them when it is imported. No script of the list calls one."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def main() -> None:
    by, path = int(sys.argv[1]), sys.argv[2]
    for module, name in ((torch, "manual_seed"), (np.random, "seed"), (random, "seed")) if by else ():
        seed = moved(getattr(module, name), by)
        seed(0)
        setattr(module, name, seed)
    library = None if "weft" in torch.__version__ else name_operators()
    del sys.argv[:2]
    sys.path[0] = str(Path(path).resolve().parent)
    runpy.run_path(path, run_name="__main__")
    del library


if __name__ == "__main__":
    main()
