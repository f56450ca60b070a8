"""Differentiable simulation: find a pendulum's length and friction from a noisy record of its angle.

The simulation is a plain Python loop of fourth-order Runge-Kutta steps; the gradient goes through all of them.
The compiled step holds the loop, its backward and the optimizer.
"""

from __future__ import annotations

import math

from run import options, prepared

import weft

GRAVITY, DT, STEPS = 9.81, 0.06, 40


def simulate(angle: weft.Tensor, speed: weft.Tensor, length: weft.Tensor, friction: weft.Tensor) -> weft.Tensor:
    """The angles at the times DT, 2 DT, ... of pendulums that start with these angles and speeds."""

    def slope(a: weft.Tensor, s: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        return s, -GRAVITY / length * weft.sin(a) - friction * s

    track = []
    for _ in range(STEPS):
        a1, s1 = slope(angle, speed)
        a2, s2 = slope(angle + DT / 2 * a1, speed + DT / 2 * s1)
        a3, s3 = slope(angle + DT / 2 * a2, speed + DT / 2 * s2)
        a4, s4 = slope(angle + DT * a3, speed + DT * s3)
        angle = angle + DT / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        speed = speed + DT / 6 * (s1 + 2 * s2 + 2 * s3 + s4)
        track.append(angle)
    return weft.stack(track)


def main() -> None:
    given = options(__doc__, 300)
    truth = weft.tensor([0.7, 0.25])
    start = weft.rand(8) * 2 - 1
    with weft.no_grad():
        seen = simulate(start, weft.zeros(8), truth[0], truth[1]) + 0.02 * weft.randn(STEPS, 8)
    logs = weft.tensor([math.log(1.2), math.log(0.05)], requires_grad=True)  # both are positive
    optimizer = weft.optim.Adam([logs], lr=0.03)

    def step() -> weft.Tensor:
        optimizer.zero_grad()
        length, friction = logs.exp().unbind()
        loss = (simulate(start, weft.zeros(8), length, friction) - seen).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = prepared(step, given)
    for i in range(given.steps):
        loss = run()
        if i % 50 == 0 or i == given.steps - 1:
            length, friction = logs.detach().exp().tolist()
            print(
                f"step {i:4}  mean square error {loss.item():.5f}  length {length:.3f} (0.700)  friction "
                f"{friction:.3f} (0.250)"
            )


if __name__ == "__main__":
    main()
