"""Milliseconds of whole steps: weft compiled, weft eager and torch eager in turn, the best of several rounds each,
and their ratios.

    python -m benchmarks.steps [W4 W6 ...] [--torch PYTHON] [--rounds N] [--seconds S] [--list]
"""

from __future__ import annotations

import sys
from contextlib import ExitStack

from benchmarks.peers import Failed, PeerProcess, machine, parser, torch_python
from benchmarks.workloads import WORKLOADS

CYCLES = {"W9": 20}  # workloads whose batches differ: one sample is a whole cycle
NAMES = ("weft", "weft_eager", "torch")


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("workloads", nargs="*", help="default: all")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=0.4, help="per library and round")
    options.add_argument("--list", action="store_true")
    given = options.parse_args(arguments)
    if given.list:
        for name, builder in WORKLOADS.items():
            print(f"{name:<5} {builder.__doc__}")
        return
    chosen = given.workloads or list(WORKLOADS)
    for name in chosen:
        if name not in WORKLOADS:
            options.error(f"no workload {name!r}; --list shows them")
    print(machine())
    print(f"{'':<5} {'weft ms':>10} {'eager ms':>10} {'torch ms':>10} {'weft/torch':>11} {'eager/torch':>12}")
    python = torch_python(given.torch)
    for name in chosen:
        print(row(name, measure(name, python, given.rounds, given.seconds)), flush=True)


def measure(workload: str, torch: str | None, rounds: int, seconds: float) -> dict[str, float | str]:
    """The best milliseconds by library, or why there are none."""
    found: dict[str, float | str] = {}
    with ExitStack() as stack:
        peers = []
        for name in NAMES:
            if name == "torch" and torch is None:
                continue
            try:
                peer = stack.enter_context(PeerProcess(name, torch if name == "torch" and torch else sys.executable))
                peer.ask("load", workload=workload)
                peers.append(peer)
            except Failed as failure:
                found[name] = str(failure)
        for _ in range(rounds):
            for peer in peers:
                before = found.get(peer.name)
                if isinstance(before, str):
                    continue
                try:
                    reply = (
                        peer.ask("cycle", count=CYCLES[workload]) if workload in CYCLES
                        else peer.ask("steps", seconds=seconds)
                    )
                except Failed as failure:
                    found[peer.name] = str(failure)
                    continue
                found[peer.name] = reply["milliseconds"] if before is None else min(reply["milliseconds"], before)
    return found


def row(workload: str, found: dict[str, float | str]) -> str:
    """A line of the table; failures follow it."""
    times = [found.get(name) for name in NAMES]
    cells = [f"{t:>10.3f}" if isinstance(t, float) else f"{'-':>10}" for t in times]
    torch = times[2]
    ratios = [f"{t / torch:>{width}.2f}" if isinstance(t, float) and isinstance(torch, float) else f"{'-':>{width}}"
              for t, width in zip(times, (11, 12), strict=False)]
    problems = [f"\n      {name}: {t[:200]}" for name, t in found.items() if isinstance(t, str)]
    return f"{workload:<5} {' '.join(cells)} {' '.join(ratios)}{''.join(problems)}"


if __name__ == "__main__":
    main(sys.argv[1:])
