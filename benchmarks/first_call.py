"""Seconds until a GPT step (W6) has run for the first time, in fresh processes: with an empty disk cache, then with the one it filled; and import.

    python -m benchmarks.first_call [--workload W6] [--repeats N] [--torch PYTHON]
"""

from __future__ import annotations

import sys
import tempfile

from benchmarks.peers import PeerProcess, machine, parser, torch_python


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("--workload", default="W6")
    options.add_argument("--repeats", type=int, default=2)
    given = options.parse_args(arguments)
    print(machine())
    python = torch_python(given.torch)
    best: dict[str, float] = {}

    def note(name: str, seconds: float) -> None:
        best[name] = min(seconds, best.get(name, seconds))

    for _ in range(given.repeats):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("empty cache", "warm cache"):
                imported, first = once("weft", sys.executable, given.workload, {"WEFT_CACHE": folder})
                note("import weft", imported)
                note(f"first call of {given.workload}, {name}", first)
        if python is not None:
            imported, first = once("torch", python, given.workload, {})
            note("import torch", imported)
            note(f"first call of {given.workload}, torch eager", first)
    for name, seconds in best.items():
        print(f"{name:<36} {seconds:.2f} s")


def once(name: str, python: str, workload: str, environment: dict[str, str]) -> tuple[float, float]:
    """Seconds of the import and of the first call, in a fresh process."""
    with PeerProcess(name, python, environment) as peer:
        first: float = peer.ask("load", workload=workload)["first_call"]
        return peer.import_seconds, first


if __name__ == "__main__":
    main(sys.argv[1:])
