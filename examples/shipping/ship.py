"""A training step as an object file: written here, run by a C program, and by ctypes without weft's compiler.

    python examples/shipping/ship.py --folder /tmp/fit
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import weft
from weft import nn
from weft.nn import functional as F


def main() -> None:
    """Write the files, train by them for some steps, and say how the C program is built."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("fit"), help="where the files go (default: fit)")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)

    weft.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = weft.optim.Adam(model.parameters(), lr=1e-2)

    @weft.compile
    def fit(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x).squeeze(1), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    x = weft.rand(32, 8) * 2 - 1
    files = fit.export(options.folder / "fit", (x, x.square().sum(1)), bounds={"x": {0: (1, 1024)}})
    shutil.copy(Path(__file__).with_suffix(".c"), options.folder)
    print(f"{files.object}: {files.object.stat().st_size} bytes; the state: {files.description.state_bytes}")

    step = weft.load_exported(options.folder / "fit")
    for i in range(options.steps):
        x = weft.rand(32, 8) * 2 - 1
        loss = step(x, x.square().sum(1))
        if i % 20 == 0:
            print(f"step {i}: loss {loss.item():.6f}")
    step.save(options.folder / "fit.trained")
    print("in the folder: cc -O2 ship.c fit.o -lm -lpthread -o ship && ./ship 100", file=sys.stderr)


if __name__ == "__main__":
    main()
