"""Fit a Hodgkin-Huxley neuron: find how strongly its sodium, potassium and leak channels conduct, from its voltage.

The membrane and its channels (Hodgkin and Huxley, 1952) are simulated step by step in a plain loop, and the gradient
goes through all of them. Eight currents are tried at once; the compiled step is one loop forward and one backward.
"""

from __future__ import annotations

from run import options, picture, prepared

import weft

DT, TIMES = 0.02, 400  # milliseconds, steps
TRUTH = (120.0, 36.0, 0.3)  # conductances: sodium, potassium, leak, in mS/cm2


def rates(v: weft.Tensor) -> tuple[weft.Tensor, ...]:
    """How fast each kind of gate opens and closes at a voltage, in 1/ms: of m, h and n."""
    return (
        0.1 * (v + 40.01) / (1 - weft.exp(-(v + 40.01) / 10)), 4 * weft.exp(-(v + 65) / 18),
        0.07 * weft.exp(-(v + 65) / 20), 1 / (1 + weft.exp(-(v + 35) / 10)),
        0.01 * (v + 55.01) / (1 - weft.exp(-(v + 55.01) / 10)), 0.125 * weft.exp(-(v + 65) / 80),
    )


def simulate(conductances: weft.Tensor, current: weft.Tensor) -> weft.Tensor:
    """The voltages [time, neuron], in mV, of neurons at rest that get a constant current, in uA/cm2."""
    sodium, potassium, leak = conductances.unbind()
    v = weft.full_like(current, -65.0)
    m, h, n = weft.full_like(current, 0.053), weft.full_like(current, 0.596), weft.full_like(current, 0.317)
    voltages = []
    for _ in range(TIMES):
        open_m, close_m, open_h, close_h, open_n, close_n = rates(v)
        flow = sodium * m**3 * h * (v - 50) + potassium * n**4 * (v + 77) + leak * (v + 54.4)
        v = v + DT * (current - flow)
        m = m + DT * (open_m * (1 - m) - close_m * m)
        h = h + DT * (open_h * (1 - h) - close_h * h)
        n = n + DT * (open_n * (1 - n) - close_n * n)
        voltages.append(v)
    return weft.stack(voltages)


def main() -> None:
    given = options(__doc__, 300)
    current = weft.linspace(4, 18, 8)
    with weft.no_grad():
        seen = simulate(weft.tensor(TRUTH), current) + weft.randn(TIMES, 8)
    logs = weft.tensor([100.0, 45.0, 0.5]).log().requires_grad_()  # conductances are positive
    before = simulate(logs.exp(), current).detach()
    optimizer = weft.optim.Adam([logs], lr=0.02)
    scheduler = weft.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=given.steps)

    def step() -> weft.Tensor:
        optimizer.zero_grad()
        loss = (simulate(logs.exp(), current) - seen).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = prepared(step, given)
    for i in range(given.steps):
        loss = run()
        scheduler.step()
        if i % 50 == 0 or i == given.steps - 1:
            shown = ", ".join(f"{g:.2f}" for g in logs.detach().exp().tolist())
            print(f"step {i:4}  mean square error {loss.item():7.2f}  conductances {shown} of 120, 36, 0.3")
    with picture(given, "voltage of one neuron, mV", "ms") as axes:
        times = [DT * t for t in range(TIMES)]
        axes.plot(times, seen[:, 4].tolist(), ".", markersize=2, label="measured")
        axes.plot(times, before[:, 4].tolist(), label="before the fit")
        axes.plot(times, simulate(logs.exp(), current).detach()[:, 4].tolist(), label="after it")


if __name__ == "__main__":
    main()
