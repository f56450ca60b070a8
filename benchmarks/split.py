"""Steps that ask for values: python -m benchmarks.split [NAME ...] prints what split=True makes of ordinary programs.

For each: milliseconds of a call in eager mode and with split=True, each the least of several rounds in turn; their
ratio; the ratio of the first 50 calls, compilation included; and whether the calls are whole programs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

CALLS, ROUNDS, FIRST = 10, 12, 50
Step = Callable[[], Any]


def programs() -> dict[str, Callable[[], Step]]:
    """What makes each step, which takes its arguments from outside."""
    import weft
    from weft import nn
    from weft.nn import functional as F

    def trained(width: int = 32) -> tuple[Any, Any, Any, Any]:
        weft.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
        return model, weft.optim.Adam(model.parameters(), lr=1e-3), weft.randn(32, 16), weft.randn(32, 1)

    def updated(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def loss_item() -> Step:
        parts = trained()
        return lambda: updated(*parts).item()

    def history_of_losses() -> Step:
        parts, losses = trained(), list[float]()
        return lambda: losses.append(updated(*parts).item())

    def best_loss() -> Step:
        parts, best = trained(), {"loss": float("inf"), "step": 0, "count": 0}

        def step() -> None:
            loss = updated(*parts).item()
            best["count"] += 1
            if loss < best["loss"]:
                best["loss"], best["step"] = loss, best["count"]

        return step

    def finite_check() -> Step:
        model, optimizer, x, y = trained()

        def step() -> Any:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            if not weft.isfinite(loss):
                raise ValueError("the loss is not finite")
            loss.backward()
            optimizer.step()
            return loss

        return step

    def skipped_update() -> Step:
        model, optimizer, x, y = trained()

        def step() -> Any:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            if nn.utils.clip_grad_norm_(model.parameters(), 1.0) < 100:
                optimizer.step()
            return loss.item()

        return step

    def running_mean() -> Step:
        parts, state = trained(), {"mean": 0.0}

        def step() -> None:
            state["mean"] = 0.9 * state["mean"] + 0.1 * updated(*parts).item()

        return step

    def backtracking() -> Step:
        target = weft.arange(1.0, 65.0)
        at = weft.zeros(64, requires_grad=True)

        def step() -> float:
            loss = ((at - target) ** 2 / target).sum()
            (gradient,) = weft.autograd.grad(loss, at)
            rate, slope = 64.0, (gradient * gradient).sum()
            with weft.no_grad():
                for _ in range(10):
                    if ((at - rate * gradient - target) ** 2 / target).sum() < loss - 0.5 * rate * slope:
                        break
                    rate /= 2
                at.copy_((at - rate * gradient) * 0.5)
            return loss.item()

        return step

    def adaptive_ode() -> Step:
        start = weft.tensor([1.0, 0.0])

        def field(y: Any) -> Any:
            return weft.stack([y[1], -weft.sin(y[0])])

        def step() -> Any:
            y, t, h, count = start, 0.0, 0.5, 0
            while t < 1.0 and count < 8:
                one = y + h * field(y + 0.5 * h * field(y))
                half = y + 0.5 * h * field(y + 0.25 * h * field(y))
                two = half + 0.5 * h * field(half + 0.25 * h * field(half))
                count += 1
                if (one - two).abs().max() < 1e-2:
                    y, t = two, t + h
                else:
                    h *= 0.5
            return y

        return step

    def metropolis() -> Step:
        state = {"x": weft.zeros(8), "accepted": 0}

        def step() -> None:
            x = state["x"]
            proposal = x + 0.3 * weft.randn(8)
            ratio = weft.exp(0.5 * ((x * x).sum() - (proposal * proposal).sum()))
            if weft.rand(()) < ratio:
                state["x"], state["accepted"] = proposal, state["accepted"] + 1

        return step

    def epsilon_greedy() -> Step:
        model, _, x, _ = trained()
        rng = np.random.default_rng(0)

        def step() -> int:
            if rng.random() < 0.1:
                return int(rng.integers(4))
            return int(model(x)[:4, 0].argmax())

        return step

    def environment_in_numpy() -> Step:
        model, optimizer, _, _ = trained()

        def step() -> float:
            seen, chances, rewards = np.zeros(16, np.float32), [], []
            for _ in range(5):
                logit = model(weft.from_numpy(seen)).squeeze()
                action = float(np.tanh(logit.detach().numpy()))
                chances.append(-((logit - action) ** 2))
                seen = np.roll(seen, 1)
                seen[0] = action
                rewards.append(-abs(seen).sum())
            loss = -(weft.stack(chances) * weft.tensor(np.array(rewards, np.float32))).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.item()

        return step

    def metrics_in_numpy() -> Step:
        model, optimizer, x, y = trained()
        errors: list[float] = []

        def step() -> None:
            loss = updated(model, optimizer, x, y)
            errors.append(float(np.abs(model(x).detach().numpy() - y.numpy()).mean()))
            del errors[:-10]
            return loss

        return step

    def printed_loss() -> Step:
        parts, lines = trained(), list[str]()

        def step() -> None:
            lines[:] = [f"loss {updated(*parts).item():.4f}"]

        return step

    def wide_and_in_numpy() -> Step:
        x = weft.randn(1 << 18)
        weight = weft.randn(1 << 18, requires_grad=True)

        def step() -> float:
            y = (x * weight).tanh() + 0.1 * (x - weight).sin() * weight.exp()
            loss = (y * y).mean()
            loss.backward()
            gradient, weight.grad = weight.grad, None
            return float(np.linalg.norm(gradient.numpy()[:100]))

        return step

    steps = (
        loss_item, history_of_losses, best_loss, finite_check, skipped_update, running_mean, backtracking, adaptive_ode,
        metropolis, epsilon_greedy, environment_in_numpy, metrics_in_numpy, printed_loss, wide_and_in_numpy,
    )
    return {function.__name__: function for function in steps}


def timed(step: Step, calls: int) -> float:
    """Seconds of so many calls, each."""
    start = time.perf_counter()
    for _ in range(calls):
        step()
    return (time.perf_counter() - start) / calls


def measured(make: Callable[[], Step]) -> tuple[float, float, float, bool]:
    """Seconds of a call in eager mode and split; the ratio of the first calls; whether split calls are whole programs.
    """
    import weft

    eager, split = make(), weft.compile(make(), split=True)
    first = timed(split, FIRST)
    first /= timed(eager, FIRST)
    seconds = [float("inf")] * 2
    for _ in range(ROUNDS):
        for i, step in enumerate((eager, split)):
            seconds[i] = min(seconds[i], timed(step, CALLS))
    return seconds[0], seconds[1], first, split.is_whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which programs; default: all")
    names = parser.parse_args().names
    makers = programs()
    for name in names:
        if name not in makers:
            parser.error(f"no program {name!r}; there are {', '.join(makers)}")
    print(f"{'':<22}{'eager ms':>10}{'split ms':>10}{'ratio':>8}{'first 50':>10}  whole")
    for name in names or makers:
        eager, split, first, is_whole = measured(makers[name])
        print(
            f"{name:<22}{1e3 * eager:>10.3f}{1e3 * split:>10.3f}{split / eager:>8.2f}{first:>10.2f}"
            f"  {'yes' if is_whole else 'no'}", flush=True,
        )


if __name__ == "__main__":
    main()
