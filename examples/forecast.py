"""Time series: a recurrent network (GRU) forecasts the next day of a series with a daily and a weekly rhythm.

It reads two weeks of hourly values and says the mean and the spread of the next 24. At the end it forecasts days that
it never saw.
"""

from __future__ import annotations

import math

from run import options, picture, prepared

import weft
from weft import nn

PAST, AHEAD, HOURS, BATCH = 24 * 14, 24, 24 * 7 * 30, 32


def series() -> weft.Tensor:
    """Hourly values [HOURS]: rhythms, a slow wandering, noise."""
    t = weft.arange(HOURS)
    daily = weft.sin(2 * math.pi * t / 24) * (1 - 0.6 * ((t // 24) % 7 >= 5).float())
    wandering = (0.03 * weft.randn(HOURS)).cumsum(0)
    return daily + 0.5 * weft.sin(2 * math.pi * t / (24 * 7)) + wandering + 0.1 * weft.randn(HOURS)


class Forecast(nn.Module):
    """Past values [batch, PAST] to means and spreads of the next ones [batch, AHEAD]."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(1, width, batch_first=True), nn.Linear(width, 2 * AHEAD)

    def forward(self, past: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        last = past[:, -1:]
        _, state = self.gru((past - last)[..., None])
        change, spread = self.head(state[0]).chunk(2, -1)
        return last + change, nn.functional.softplus(spread) + 1e-3


def windows(values: weft.Tensor, starts: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
    """The past and what follows it, from some hours on."""
    cut = values[starts[:, None] + weft.arange(PAST + AHEAD)]
    return cut[:, :PAST], cut[:, PAST:]


def main() -> None:
    given = options(__doc__, 300)
    values, held = series(), 24 * 28  # the last hours are not learned from
    model = Forecast()
    optimizer = weft.optim.AdamW(model.parameters(), lr=3e-3)

    def step(starts: weft.Tensor) -> weft.Tensor:
        optimizer.zero_grad()
        past, future = windows(values, starts)
        mean, spread = model(past)
        loss = nn.functional.gaussian_nll_loss(mean, future, spread.square())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    run = prepared(step, given)
    for i in range(given.steps):
        loss = run(weft.randint(0, HOURS - held - PAST - AHEAD, (BATCH,)))
        if i % 50 == 0 or i == given.steps - 1:
            print(f"step {i:4}  loss {loss.item():.4f}")
    with weft.no_grad():
        past, future = windows(values, HOURS - PAST - AHEAD - 7 * weft.arange(84))
        mean, spread = model(past)
        within = ((future - mean).abs() < 2 * spread).float().mean()
        naive = (future - past[:, -AHEAD:]).abs().mean()
    print(
        f"unseen days: mean error {(future - mean).abs().mean().item():.3f} (yesterday's values: {naive.item():.3f}), "
        f"{100 * within.item():.0f} % within two spreads"
    )
    with picture(given, "value", "hour") as axes:
        axes.plot(range(-72, 0), past[0, -72:].tolist(), label="past")
        axes.plot(range(AHEAD), future[0].tolist(), label="future")
        axes.plot(range(AHEAD), mean[0].tolist(), "--", label="forecast")
        axes.fill_between(range(AHEAD), *((mean + k * spread)[0].tolist() for k in (-2, 2)), alpha=0.2)


if __name__ == "__main__":
    main()
