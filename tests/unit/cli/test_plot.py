"""The picture of the losses, and its running mean."""

from __future__ import annotations

import numpy as np
import pytest

from weft.cli.plot import can_plot, plot_losses, running_mean


def test_the_running_mean_is_the_mean_of_the_last_values(rng: np.random.Generator) -> None:
    values, window = rng.standard_normal(40), int(rng.integers(1, 50))
    expected = [values[max(0, end - window) : end].mean() for end in range(1, 41)]
    assert np.allclose(running_mean(values, window), expected)


@pytest.mark.skipif(not can_plot(), reason="matplotlib is an extra")
@pytest.mark.parametrize("steps", [1, 2, 60])
def test_a_curve_is_a_png(rng: np.random.Generator, steps: int) -> None:
    picture = plot_losses(5 - rng.random(steps), 4.0, {"bigram": 2.3, "trigram": 1.7})
    assert picture.startswith(b"\x89PNG") and len(picture) > 5000
