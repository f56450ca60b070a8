"""Run the random training programs of tests/training in PyTorch and store what came out.

    python scripts/make_torch_steps.py [--count 3000]       # -> tests/training/data/torch_steps.npz, about two minutes

Needs torch and NumPy, in an environment of their own: weft never has torch. A program that PyTorch refuses,
or whose numbers overflow, is left out. Made with torch 2.13 (CPU, 1 thread).
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.training.draw import draw  # noqa: E402
from tests.training.running import run  # noqa: E402

LONGEST = 9  # seven losses and two numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=3000)
    count = parser.parse_args().count
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    seeds, summaries, refused = [], [], 0
    seed = 0
    while len(seeds) < count:
        try:
            summary = run(draw(seed), torch).summary()
        except (RuntimeError, ValueError, TypeError):
            summary = np.array([np.nan])
        if np.isfinite(summary).all():
            seeds.append(seed)
            summaries.append(np.pad(summary, (0, LONGEST - len(summary)), constant_values=np.nan))
        else:
            refused += 1
        seed += 1
    path = ROOT / "tests" / "training" / "data" / "torch_steps.npz"
    path.parent.mkdir(exist_ok=True)
    np.savez_compressed(path, seeds=np.array(seeds), summaries=np.array(summaries))
    print(f"{len(seeds)} programs stored in {path}, {refused} left out, torch {torch.__version__}")


if __name__ == "__main__":
    main()
