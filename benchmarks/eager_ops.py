"""Microseconds of thirty small operators in eager mode, weft and torch in turn, with their ratios and the median of these.

    python -m benchmarks.eager_ops [--torch PYTHON] [--rounds N]
"""

from __future__ import annotations

import statistics
import sys

from benchmarks.peers import PeerProcess, machine, parser, torch_python
from benchmarks.small_ops import ADD


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args(arguments)
    python = torch_python(given.torch)
    print(machine())
    ours, theirs = measure(python, given.rounds)
    print(f"{'':<20} {'weft us':>8} {'torch us':>9} {'ratio':>6}")
    for name, time in ours.items():
        other = theirs.get(name)
        print(f"{name:<20} {time:>8.2f}" + (f" {other:>9.2f} {time / other:>6.1f}" if other else ""))
    if theirs:
        thirty = [ours[name] / theirs[name] for name in ours if name not in ADD]
        print(f"median ratio of {len(thirty)} operators {statistics.median(thirty):.1f}")


def measure(torch: str | None, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """The best microseconds by operator: weft's and torch's (empty without torch)."""
    peers = [PeerProcess("weft_eager", sys.executable)] + ([PeerProcess("torch", torch)] if torch else [])
    names = [peer.ask("ops")["names"] for peer in peers]
    best: list[dict[str, float]] = [{}, {}]
    for _ in range(rounds):
        for name in names[0]:
            for i, peer in enumerate(peers):
                time = peer.ask("op", name=name)["microseconds"]
                best[i][name] = min(time, best[i].get(name, time))
    for peer in peers:
        peer.close()
    return best[0], best[1]


if __name__ == "__main__":
    main(sys.argv[1:])
