"""Partial differential equation: how well each place of a rod conducts heat, from its temperatures at some moments.

The rod is cooled at one end and heated at the other; the equation dT/dt = d/dx(k(x) dT/dx) is solved by explicit
steps, and the gradient by k goes back through all of them. The loop is one native loop.
"""

from __future__ import annotations

from run import options, picture, prepared

import weft

PLACES, TIMES, EVERY = 30, 3000, 200  # cells of the rod, time steps, and steps between two measurements
DT, NOISE = 0.4, 0.005  # DT * k / dx**2 has to stay below 1/2, with dx = 1


def temperatures(conducting: weft.Tensor) -> weft.Tensor:
    """Temperatures [moment, place] of a rod that is 0 at first; conducting [place + 1] is k between cells."""
    rod, moments = weft.zeros(PLACES), []
    for t in range(TIMES):
        whole = weft.cat([weft.ones(1), rod, weft.zeros(1)])
        flow = conducting * whole.diff()
        rod = rod + DT * flow.diff()
        if t % EVERY == EVERY - 1:
            moments.append(rod)
    return weft.stack(moments)


def main() -> None:
    given = options(__doc__, 300)
    borders = weft.linspace(0, 1, PLACES + 1)
    true = 0.6 + 0.5 * weft.sin(7 * borders) * borders
    measured = temperatures(true) + NOISE * weft.randn(TIMES // EVERY, PLACES)
    logs = weft.full((PLACES + 1,), -0.7, requires_grad=True)  # of k, which is positive
    optimizer = weft.optim.Adam([logs], lr=0.03)

    def step(measured: weft.Tensor) -> weft.Tensor:
        optimizer.zero_grad()
        misfit = (temperatures(logs.exp()) - measured).square().mean() / NOISE**2
        loss = misfit + 0.3 * logs.diff().square().sum()  # neighbours conduct alike
        loss.backward()
        optimizer.step()
        return misfit.detach()

    run = prepared(step, given)
    for i in range(given.steps):
        misfit = run(measured)
        if i % 50 == 0 or i == given.steps - 1:
            error = (logs.detach().exp() - true).abs().mean()
            print(f"step {i:4}  misfit {misfit.item():.3f} (1 is the noise)  mean error of k {error.item():.4f}")
    with picture(given, "conductivity", "place") as axes:
        axes.plot(borders.tolist(), true.tolist(), label="true")
        axes.plot(borders.tolist(), logs.detach().exp().tolist(), "--", label="fitted")


if __name__ == "__main__":
    main()
