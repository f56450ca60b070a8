"""Milliseconds of single convolutions and poolings with their gradients: weft compiled, weft eager and torch eager in
turn, the best of several rounds each, and their ratios.

    python -m benchmarks.convolutions [--torch PYTHON] [--rounds N] [--seconds S]
"""

from __future__ import annotations

import sys

from benchmarks.peers import machine, parser, torch_python
from benchmarks.steps import measure, row
from benchmarks.window_workloads import WINDOWS

WIDTH = 20


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--seconds", type=float, default=0.2, help="per library and round")
    given = options.parse_args(arguments)
    print(machine())
    print(f"{'':<{WIDTH}} {'weft ms':>10} {'eager ms':>10} {'torch ms':>10} {'weft/torch':>11} {'eager/torch':>12}")
    python = torch_python(given.torch)
    for name in WINDOWS:
        print(row(f"{name:<{WIDTH}}", measure(name, python, given.rounds, given.seconds)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
