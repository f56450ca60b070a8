"""What the examples share: their options, and the frame of their pictures."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import weft


def options(doc: str | None, steps: int) -> argparse.Namespace:
    """--steps, --mode, --seed and --picture from the command line; the seed is set."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=steps, help=f"training steps (default: {steps})")
    parser.add_argument(
        "--mode", choices=("compiled", "eager"), default="compiled", help="how a step runs (default: compiled)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", metavar="FILE", help="draw the result (.svg or .png; needs matplotlib)")
    given = parser.parse_args()
    if given.steps < 1:
        parser.error("--steps must be at least 1")
    weft.manual_seed(given.seed)
    return given


def prepared(step: Callable[..., Any], given: argparse.Namespace) -> Callable[..., Any]:
    """The step as --mode wants it."""
    return weft.compile(step) if given.mode == "compiled" else step


@contextmanager
def picture(given: argparse.Namespace, y: str, x: str, **scales: str) -> Iterator[Any]:
    """Axes of matplotlib to draw on; what is drawn goes to the file of --picture, and nowhere without one."""
    if given.picture is None:
        yield _Nothing()
        return
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "weft"  # the same file each time
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    axes.set(xlabel=x, ylabel=y, **scales)
    yield axes
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    figure.savefig(given.picture, dpi=100)
    plt.close(figure)


class _Nothing:
    """Axes that draw nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None
