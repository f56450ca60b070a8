"""Plain Python loops in compiled steps: seconds until the first step, and milliseconds of a later one, with loops
folded and as Python unrolls them.

    python -m benchmarks.loops [--program NAME ...] [--steps N]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import weft
from benchmarks.peers import machine, parser

Step = Callable[..., Any]
Made = tuple[Step, tuple[Any, ...]]


def hodgkin_huxley(steps: int) -> Made:
    """A fit of conductances of 16 neurons to recorded voltages."""
    names = {"sodium": 120.0, "potassium": 36.0, "leak": 0.3}
    conductances = tuple(weft.full((16,), value, requires_grad=True) for value in names.values())
    target, current = weft.randn(steps, 16) * 5 - 60, weft.rand(steps, 16) * 10

    def fit(sodium: Any, potassium: Any, leak: Any, current: Any, target: Any) -> Any:
        v, m, h, n = (weft.full((16,), value) for value in (-65.0, 0.05, 0.6, 0.32))
        loss = 0.0
        for t in range(steps):
            opening = 0.1 * (v + 40) / (1 - weft.exp(-(v + 40) / 10))
            m = m + 0.01 * (opening * (1 - m) - 4 * weft.exp(-(v + 65) / 18) * m)
            h = h + 0.01 * (0.07 * weft.exp(-(v + 65) / 20) * (1 - h) - h / (1 + weft.exp(-(v + 35) / 10)))
            rising = 0.01 * (v + 55) / (1 - weft.exp(-(v + 55) / 10))
            n = n + 0.01 * (rising * (1 - n) - 0.125 * weft.exp(-(v + 65) / 80) * n)
            flow = sodium * m**3 * h * (v - 50) + potassium * n**4 * (v + 77) + leak * (v + 54.4)
            v = v + 0.01 * (current[t] - flow)
            loss = loss + ((v - target[t]) ** 2).mean()
        loss.backward()
        return loss

    return fit, (*conductances, current, target)


def ode(steps: int) -> Made:
    """A network as the right-hand side of an ODE, by Runge-Kutta's method."""
    first, second = ((weft.randn(*s) * 0.3).requires_grad_() for s in ((2, 32), (32, 2)))
    start, target = weft.randn(64, 2), weft.randn(64, 2)

    def fit(first: Any, second: Any, y: Any, target: Any) -> Any:
        def slope(y: Any) -> Any:
            return weft.tanh(y @ first) @ second

        dt = 0.05
        for _ in range(steps):
            a = slope(y)
            b = slope(y + dt / 2 * a)
            c = slope(y + dt / 2 * b)
            y = y + dt / 6 * (a + 2 * b + 2 * c + slope(y + dt * c))
        loss = ((y - target) ** 2).mean()
        loss.backward()
        return loss

    return fit, (first, second, start, target)


def simulation(steps: int) -> Made:
    """A damped oscillator that writes its path into a record."""
    arguments = (
        weft.tensor(2.0, requires_grad=True), weft.randn(64), weft.zeros(64), weft.randn(steps, 64),
    )

    def fit(stiffness: Any, x: Any, v: Any, target: Any) -> Any:
        path = weft.zeros(steps, 64)
        for t in range(steps):
            v = v + 0.01 * (-stiffness * x - 0.1 * v)
            x = x + 0.01 * v
            path[t] = x
        loss = ((path - target) ** 2).mean()
        loss.backward()
        return loss

    return fit, arguments


def kalman(steps: int) -> Made:
    """The likelihood of a linear state of four dims that is observed in two."""
    transition = (weft.eye(4) * 0.9 + weft.randn(4, 4) * 0.02).requires_grad_()
    observed = weft.randn(2, 4)
    noise, error = weft.eye(4) * 0.1, weft.eye(2) * 0.2

    def fit(transition: Any, series: Any) -> Any:
        mean, covariance, total = weft.zeros(4), weft.eye(4), 0.0
        for t in range(steps):
            mean = transition @ mean
            covariance = transition @ covariance @ transition.T + noise
            spread = observed @ covariance @ observed.T + error
            factor = weft.linalg.cholesky(spread)
            surprise = series[t] - observed @ mean
            scaled = weft.linalg.solve_triangular(factor, surprise.unsqueeze(-1), upper=False)
            total = total + 0.5 * (scaled * scaled).sum() + weft.log(factor.diagonal()).sum()
            gain = weft.linalg.solve(spread, observed @ covariance).T
            mean, covariance = mean + gain @ surprise, covariance - gain @ observed @ covariance
        total.backward()
        return total

    return fit, (transition, weft.randn(steps, 2))


def pointwise(steps: int) -> Made:
    """A body of 40 pointwise operators on two states of 4 x 4 values."""
    arguments = (weft.full((4, 4), 0.3, requires_grad=True), weft.rand(4, 4), weft.rand(4, 4))

    def fit(p: Any, x: Any, y: Any) -> Any:
        for _ in range(steps):
            for _ in range(4):
                x = x + 0.01 * (weft.sin(y) - p * x)
                y = y + 0.01 * (weft.cos(x) - p * y)
        loss = (x * y).sum()
        loss.backward()
        return loss

    return fit, arguments


def lstm(steps: int) -> Made:
    """A cell of 32 values over sequences of 16 values, 8 of them."""
    cell, series = weft.nn.LSTMCell(16, 32), weft.randn(steps, 8, 16)

    def fit(series: Any) -> Any:
        h, c, states = weft.zeros(8, 32), weft.zeros(8, 32), []
        for t in range(steps):
            h, c = cell(series[t], (h, c))
            states.append(h)
        loss = (weft.stack(states) ** 2).mean()
        loss.backward()
        return loss

    return fit, (series,)


def adam(count: int) -> Made:
    """An optimizer of so many small parameters of three shapes."""
    ps = [weft.nn.Parameter(weft.randn(((8, 8), (16,), (4, 6))[i % 7 % 3])) for i in range(count)]
    for p in ps:
        p.grad = weft.randn(p.shape)
    optimizer = weft.optim.Adam(ps, lr=1e-3)

    def step() -> Any:
        optimizer.step()
        return ps[0].detach().sum()

    return step, ()


PROGRAMS: dict[str, tuple[Callable[[int], Made], int]] = {
    "hodgkin_huxley": (hodgkin_huxley, 400), "ode": (ode, 200), "simulation": (simulation, 400),
    "kalman": (kalman, 200), "pointwise": (pointwise, 1000), "lstm": (lstm, 100), "adam": (adam, 5000),
}


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("--program", nargs="+", default=list(PROGRAMS), choices=PROGRAMS)
    options.add_argument("--steps", type=int, help="of the loop; default: each program's own")
    options.add_argument("--one", metavar="PROGRAM", help="one program in this process, as JSON")
    chosen = options.parse_args(arguments)
    if chosen.one:
        print(json.dumps(measured(chosen.one, chosen.steps or PROGRAMS[chosen.one][1])))
        return
    print(machine())
    print(f"{'':<24}{'first call, s':>14}{'of work, s':>12}{'later, ms':>12}{'operators':>12}{'loss':>16}")
    for name in chosen.program:
        steps = chosen.steps or PROGRAMS[name][1]
        for fold in ("off", "on"):
            row = in_process(name, steps, fold)
            print(
                f"{name + (' folded' if fold == 'on' else ''):<24}{row['first']:>14.2f}{row['work']:>12.2f}"
                f"{row['later'] * 1e3:>12.3f}{row['operators']:>12}{row['loss']:>16.9g}", flush=True,
            )


def in_process(name: str, steps: int, fold: str) -> dict[str, Any]:
    """The figures of a program in a fresh process with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.loops", "--one", name, "--steps", str(steps)]
        environment = {**os.environ, "WEFT_CACHE": folder, "WEFT_FOLD": fold}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def measured(name: str, steps: int) -> dict[str, Any]:
    """Seconds of the first call and of the fastest later one; what every program needs is there already."""
    weft.compile(lambda x: x @ x + 1)(weft.ones(3, 3))
    weft.manual_seed(0)
    function, arguments = PROGRAMS[name][0](steps)
    step = weft.compile(function)
    start, work = time.perf_counter(), time.process_time()
    loss = float(step(*arguments))
    first, work = time.perf_counter() - start, time.process_time() - work
    later = []
    for _ in range(20):
        start = time.perf_counter()
        step(*arguments)
        later.append(time.perf_counter() - start)
    graph = step.stages(*arguments)["optimized"]
    return {
        "first": first, "work": work, "later": min(later), "operators": sum(1 for _ in graph.walk()), "loss": loss,
    }


if __name__ == "__main__":
    main(sys.argv[1:])
