"""Time series: how strongly a moving object is pushed and how noisy its measured places are, by maximum likelihood.

A Kalman filter goes through the measurements and gives their likelihood; the gradient goes through the filter. Its
loop of small matrices is one native loop.
"""

from __future__ import annotations

import math

from run import options, picture, prepared

import weft

DT, TIMES = 0.1, 200
PUSH, NOISE = 1.5, 0.4  # standard deviations: of random pushes, of measurements


def matrices(push: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
    """How place and speed go on in a time step, and the covariance of what pushes add."""
    move = weft.tensor([[1.0, DT], [0.0, 1.0]])
    gain = weft.tensor([[DT**2 / 2], [DT]])
    return move, gain @ gain.T * push**2


def filtered(measured: weft.Tensor, push: weft.Tensor, noise: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
    """The log likelihood of the measurements, and the estimated places [time]."""
    move, added = matrices(push)
    state, covariance = weft.zeros(2), weft.eye(2)
    total, places = weft.zeros(()), []
    for seen in measured:
        state, covariance = move @ state, move @ covariance @ move.T + added
        spread = covariance[0, 0] + noise**2
        surprise = seen - state[0]
        total = total - 0.5 * (surprise**2 / spread + spread.log() + math.log(2 * math.pi))
        gain = covariance[:, 0] / spread
        state = state + gain * surprise
        covariance = covariance - weft.outer(gain, covariance[0])
        places.append(state[0])
    return total, weft.stack(places)


def drive() -> tuple[weft.Tensor, weft.Tensor]:
    """True and measured places [time] of an object that is pushed at random."""
    place, speed, places = weft.zeros(()), weft.zeros(()), []
    for push in PUSH * weft.randn(TIMES):
        place, speed = place + DT * speed + DT**2 / 2 * push, speed + DT * push
        places.append(place)
    true = weft.stack(places)
    return true, true + NOISE * weft.randn(TIMES)


def main() -> None:
    given = options(__doc__, 200)
    true, measured = drive()
    logs = weft.zeros(2, requires_grad=True)  # of push and noise, which are positive
    optimizer = weft.optim.Adam([logs], lr=0.05)

    def step(measured: weft.Tensor) -> weft.Tensor:
        optimizer.zero_grad()
        loss = -filtered(measured, *logs.exp().unbind())[0] / len(measured)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = prepared(step, given)
    for i in range(given.steps):
        loss = run(measured)
        if i % 50 == 0 or i == given.steps - 1:
            push, noise = logs.detach().exp().tolist()
            print(
                f"step {i:4}  negative log likelihood {loss.item():.4f}  push {push:.2f} ({PUSH})  "
                f"noise {noise:.2f} ({NOISE})"
            )
    with picture(given, "place", "time") as axes:
        times = [DT * t for t in range(TIMES)]
        axes.plot(times, measured.tolist(), ".", markersize=3, label="measured")
        axes.plot(times, true.tolist(), label="true")
        axes.plot(times, filtered(measured, *logs.exp().unbind())[1].tolist(), label="filtered")


if __name__ == "__main__":
    main()
