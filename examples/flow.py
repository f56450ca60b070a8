"""Density estimation: a normalizing flow learns how points of two half circles are distributed.

Each layer shifts and scales one coordinate by a network of the other one (Dinh et al., Real NVP, 2017), so that the
likelihood of a point is known exactly.
"""

from __future__ import annotations

import math

from run import options, picture, prepared

import weft
from weft import nn
from weft.distributions import Independent, Normal

LAYERS, WIDTH, BATCH = 8, 32, 256


class Coupling(nn.Module):
    """Changes coordinate `moved` by what a network makes of the other one."""

    def __init__(self, moved: int) -> None:
        super().__init__()
        self.moved = moved
        widths = nn.Linear(1, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)
        self.net = nn.Sequential(widths[0], nn.SiLU(), widths[1], nn.SiLU(), widths[2])

    def forward(self, x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        """The points [n, 2] nearer to the normal distribution, and the logarithm of the change of volume [n]."""
        kept = x[:, 1 - self.moved]
        scale, shift = self.net(kept[:, None]).unbind(-1)
        scale = 2 * weft.tanh(scale / 2)
        new = x[:, self.moved] * scale.exp() + shift
        return weft.stack([kept, new] if self.moved else [new, kept], -1), scale

    def inverse(self, z: weft.Tensor) -> weft.Tensor:
        """The points that forward brings to z."""
        kept = z[:, 1 - self.moved]
        scale, shift = self.net(kept[:, None]).unbind(-1)
        new = (z[:, self.moved] - shift) * (-2 * weft.tanh(scale / 2)).exp()
        return weft.stack([kept, new] if self.moved else [new, kept], -1)


class Flow(nn.Module):
    """Couplings of both coordinates in turn, over a normal distribution."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Coupling(i % 2) for i in range(LAYERS)])

    def log_prob(self, x: weft.Tensor) -> weft.Tensor:
        """The logarithm of the density at points [n, 2]."""
        total = weft.zeros(len(x))
        for layer in self.layers:
            x, change = layer(x)
            total = total + change
        return total + Independent(Normal(weft.zeros(2), weft.ones(2)), 1).log_prob(x)

    @weft.no_grad()
    def sample(self, count: int) -> weft.Tensor:
        """Points of the learned distribution."""
        z = weft.randn(count, 2)
        for layer in reversed(self.layers):
            z = layer.inverse(z)
        return z


def moons(count: int) -> weft.Tensor:
    """Noisy points [count, 2] of two half circles that reach into each other."""
    angle, upper = math.pi * weft.rand(count), weft.rand(count) < 0.5
    x = weft.where(upper, weft.cos(angle), 1 - weft.cos(angle))
    y = weft.where(upper, weft.sin(angle), 0.5 - weft.sin(angle))
    return weft.stack([x - 0.5, y - 0.25], -1) * 1.5 + 0.1 * weft.randn(count, 2)


def main() -> None:
    given = options(__doc__, 1500)
    flow = Flow()
    optimizer = weft.optim.Adam(flow.parameters(), lr=2e-3)

    def step(x: weft.Tensor) -> weft.Tensor:
        optimizer.zero_grad()
        loss = -flow.log_prob(x).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = prepared(step, given)
    for i in range(given.steps):
        loss = run(moons(BATCH))
        if i % 250 == 0 or i == given.steps - 1:
            print(f"step {i:4}  negative log likelihood {loss.item():.4f}")
    with picture(given, "y", "x") as axes:
        axes.plot(*moons(400).unbind(-1), ".", markersize=3, label="data")
        axes.plot(*flow.sample(400).unbind(-1), ".", markersize=3, label="samples of the flow")


if __name__ == "__main__":
    main()
