"""Train the eight model families of tests/training in PyTorch and store the losses and weights.

    python scripts/make_torch_families.py        # -> tests/training/data/torch_families.npz, some seconds

Needs torch and NumPy, in an environment of their own: weft never has torch. Made with torch 2.13 (CPU, 1 thread).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.training.families import FAMILIES, run  # noqa: E402


def main() -> None:
    torch.set_num_threads(1)
    stored = {}
    for name, family in FAMILIES.items():
        outcome = run(family, torch)
        stored[f"{name}/losses"] = outcome.losses
        stored |= {f"{name}/{key}": value for key, value in outcome.tensors.items()}
        print(name, outcome.losses)
    path = ROOT / "tests" / "training" / "data" / "torch_families.npz"
    np.savez_compressed(path, **stored)
    print(f"{len(stored)} arrays stored in {path}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
