"""The loss curve as a picture. Needs matplotlib, which comes with the extra weft[plot]."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LINE, FAINT, DOT, LEVEL = "#1f5fa8", "#a9c6e8", "#c2410c", "#6b7280"


def can_plot() -> bool:
    """Is matplotlib installed?"""
    try:
        import matplotlib  # noqa: F401  optional
    except ImportError:
        return False
    return True


def plot_losses(losses: Array, held_out: float, levels: Mapping[str, float]) -> bytes:
    """A PNG: the loss of each step with its running mean, the held-out loss at the end,
    and named levels to compare with."""
    from matplotlib.figure import Figure  # optional and heavy

    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    steps = np.arange(1, len(losses) + 1)
    axes.plot(steps, losses, color=FAINT, linewidth=0.8, label="each step")
    axes.plot(steps, running_mean(losses), color=LINE, linewidth=1.8, label="running mean")
    axes.plot([len(losses)], [held_out], "o", color=DOT, markersize=5, clip_on=False, label=f"held out: {held_out:.3f}")
    for name, level in levels.items():
        axes.axhline(level, color=LEVEL, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.annotate(f"{name} {level:.2f}", (1, level), (-4, 3), xycoords=("axes fraction", "data"),
                      textcoords="offset points", ha="right", va="bottom", fontsize=8, color=LEVEL)
    axes.set(xlabel="step", ylabel="loss, nats per byte", xlim=(0, len(losses)))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def running_mean(values: Array, window: int = 25) -> Array:
    """The mean of the last `window` values at each place (of fewer at the start)."""
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    result: Array = (sums[ends] - sums[starts]) / (ends - starts)
    return result
