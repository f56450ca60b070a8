"""Eager mode beside PyTorch's: microseconds of small operators, milliseconds of whole steps, and ratios.

    python -m benchmarks.eager [ops W4 W6 ...] [--torch PYTHON] [--rounds N] [--seconds S] [--threads T]

Both libraries run in turn, in many short blocks, and the fastest call of all blocks counts: what other jobs on the
machine do then hardly shows.
"""

from __future__ import annotations

import statistics
import sys
from contextlib import ExitStack

from benchmarks.peers import Failed, PeerProcess, machine, parser, torch_python
from benchmarks.small_ops import ADD
from benchmarks.workloads import WORKLOADS

CYCLES = {"W9": 20}  # workloads whose batches differ: one sample is a whole cycle
NAMES = ("weft_eager", "torch")
Times = dict[str, float]


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("names", nargs="*", help="ops, or workloads; default: all")
    options.add_argument("--rounds", type=int, default=12)
    options.add_argument("--seconds", type=float, default=0.15, help="of a block of steps")
    options.add_argument("--threads", type=int, default=2)
    given = options.parse_args(arguments)
    for name in given.names:
        if name != "ops" and name not in WORKLOADS:
            options.error(f"no workload {name!r}; there are ops, {', '.join(WORKLOADS)}")
    python = torch_python(given.torch)
    print(machine())
    if not given.names or "ops" in given.names:
        show_operators(*measure_operators(python, given.rounds, given.threads))
    steps = [name for name in given.names or WORKLOADS if name != "ops"]
    if steps:
        print(f"{'':<20} {'weft ms':>8} {'torch ms':>9} {'ratio':>6}")
        found = []
        for name in steps:
            ratio = show_step(name, measure_step(name, python, given.rounds, given.seconds, given.threads))
            found += [] if ratio is None else [ratio]
        if found:
            few = len([r for r in found if r <= 3])
            print(f"{few} of {len(found)} steps at most 3 times PyTorch's, median {statistics.median(found):.1f}")


def peers(torch: str | None, threads: int, stack: ExitStack) -> list[PeerProcess]:
    """The libraries, each in its process."""
    pythons = [sys.executable, *([torch] if torch else [])]
    found = [stack.enter_context(PeerProcess(name, python)) for name, python in zip(NAMES, pythons, strict=False)]
    for peer in found:
        peer.ask("set_threads", count=threads)
    return found


def measure_operators(torch: str | None, rounds: int, threads: int) -> tuple[Times, Times]:
    """The best microseconds by operator: weft's and torch's (empty without torch)."""
    best: tuple[Times, Times] = ({}, {})
    with ExitStack() as stack:
        libraries = peers(torch, threads, stack)
        names = [peer.ask("ops")["names"] for peer in libraries]
        for _ in range(rounds):
            for name in names[0]:
                for times, peer in zip(best, libraries, strict=False):
                    time = peer.ask("op", name=name, calls=20, repeats=12)["microseconds"]
                    times[name] = min(time, times.get(name, time))
    return best


def show_operators(ours: Times, theirs: Times) -> None:
    """A line for each operator, and the median and greatest of the ratios."""
    print(f"{'':<20} {'weft us':>8} {'torch us':>9} {'ratio':>6}")
    for name, time in ours.items():
        other = theirs.get(name)
        print(f"{name:<20} {time:>8.2f}" + (f" {other:>9.2f} {time / other:>6.1f}" if other else ""))
    if theirs:
        thirty = [ours[name] / theirs[name] for name in ours if name not in ADD]
        print(f"{len(thirty)} operators: median ratio {statistics.median(thirty):.2f}, greatest {max(thirty):.1f}")


def measure_step(workload: str, torch: str | None, rounds: int, seconds: float, threads: int) -> dict[str, float | str]:
    """The best milliseconds by library, or why there are none."""
    found: dict[str, float | str] = {}
    with ExitStack() as stack:
        libraries = peers(torch, threads, stack)
        for at in range(rounds + 1):
            for peer in libraries:
                before = found.get(peer.name)
                if isinstance(before, str):
                    continue
                try:
                    if not at:
                        peer.ask("load", workload=workload)
                        continue
                    cycle = CYCLES.get(workload)
                    reply = peer.ask("cycle", count=cycle) if cycle else peer.ask("steps", seconds=seconds, least=1)
                except Failed as failure:
                    found[peer.name] = str(failure)
                    continue
                found[peer.name] = reply["milliseconds"] if before is None else min(reply["milliseconds"], before)
    return found


def show_step(name: str, found: dict[str, float | str]) -> float | None:
    """A line of the table; the ratio."""
    ours, theirs = (found.get(library) for library in NAMES)
    ratio = ours / theirs if isinstance(ours, float) and isinstance(theirs, float) else None
    widths = ((ours, 8), (theirs, 9))
    cells = [f"{time:>{width}.3f}" if isinstance(time, float) else f"{'-':>{width}}" for time, width in widths]
    print(f"{name:<20} {' '.join(cells)} " + (f"{ratio:>6.1f}" if ratio else f"{'-':>6}"), flush=True)
    for library, text in found.items():
        if isinstance(text, str):
            print(f"      {library}: {text[:200]}")
    return ratio


if __name__ == "__main__":
    main(sys.argv[1:])
