"""Gaussian process: a curve through noisy points, with its uncertainty; three settings by maximum likelihood.

The likelihood needs a Cholesky factor of the covariance of all points, and its gradient; both are native code.
"""

from __future__ import annotations

import math

from run import options, picture, prepared

import weft

POINTS = 60


def covariance(a: weft.Tensor, b: weft.Tensor, length: weft.Tensor, height: weft.Tensor) -> weft.Tensor:
    """Of values at the places a [n] and b [m]: [n, m]."""
    return height**2 * weft.exp(-0.5 * ((a.unsqueeze(1) - b) / length).square())


def whitened(x: weft.Tensor, y: weft.Tensor, settings: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
    """The Cholesky factor of the covariance of values at places x [n], and the values y without it [n, 1]; settings:
    length, height and noise."""
    length, height, noise = settings.unbind()
    factor = weft.linalg.cholesky(covariance(x, x, length, height) + noise**2 * weft.eye(len(x), dtype=x.dtype))
    return factor, weft.linalg.solve_triangular(factor, y.unsqueeze(1), upper=False)


def log_likelihood(x: weft.Tensor, y: weft.Tensor, settings: weft.Tensor) -> weft.Tensor:
    """Of values y at places x."""
    factor, scaled = whitened(x, y, settings)
    return -0.5 * scaled.square().sum() - factor.diagonal().log().sum() - 0.5 * len(x) * math.log(2 * math.pi)


def prediction(x: weft.Tensor, y: weft.Tensor, at: weft.Tensor, settings: weft.Tensor) -> tuple[weft.Tensor, ...]:
    """Mean and standard deviation of the curve at other places."""
    length, height, _ = settings.unbind()
    factor, scaled = whitened(x, y, settings)
    across = weft.linalg.solve_triangular(factor, covariance(x, at, length, height), upper=False)
    return (across.T @ scaled).squeeze(1), (height**2 - across.square().sum(0)).clamp_min(0).sqrt()


def main() -> None:
    given = options(__doc__, 200)
    x = (weft.rand(POINTS, dtype=weft.float64) * 10).sort().values
    x = weft.where((x > 4) & (x < 6), x - 3, x)  # nothing is known between 4 and 6
    y = weft.sin(x) + 0.3 * weft.sin(3 * x) + 0.2 * weft.randn(POINTS, dtype=weft.float64)
    logs = weft.zeros(3, dtype=weft.float64, requires_grad=True)  # of length, height and noise
    optimizer = weft.optim.Adam([logs], lr=0.05)

    def step(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        optimizer.zero_grad()
        loss = -log_likelihood(x, y, logs.exp()) / len(x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = prepared(step, given)
    for i in range(given.steps):
        loss = run(x, y)
        if i % 50 == 0 or i == given.steps - 1:
            length, height, noise = logs.detach().exp().tolist()
            print(
                f"step {i:4}  negative log likelihood {loss.item():7.4f}  length {length:.2f}  height {height:.2f}  "
                f"noise {noise:.2f} (0.20)"
            )
    with picture(given, "value", "place") as axes:
        at = weft.linspace(0, 10, 200, dtype=weft.float64)
        mean, deviation = (part.detach() for part in prediction(x, y, at, logs.exp()))
        low, high = (mean - 2 * deviation).tolist(), (mean + 2 * deviation).tolist()
        axes.plot(x.tolist(), y.tolist(), ".", label="points")
        axes.plot(at.tolist(), mean.tolist(), label="mean")
        axes.fill_between(at.tolist(), low, high, alpha=0.25, label="95 %")


if __name__ == "__main__":
    main()
