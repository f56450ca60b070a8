"""Self-organisation: a neural cellular automaton learns to grow a picture from one cell.

Every cell sees its neighbours, and all follow one small network (Mordvintsev et al., Growing Neural Cellular Automata,
2020). Which cells act in a step is drawn at random. The steps of growth are one native loop.
"""

from __future__ import annotations

from run import options, picture, prepared

import weft
from weft import nn

SIDE, CHANNELS, WIDTH, GROWTH, BATCH = 20, 8, 48, 32, 4


class Automaton(nn.Module):
    """Grids [batch, channel, row, column] to grids after some steps. Channel 0 is what is seen."""

    def __init__(self) -> None:
        super().__init__()
        edge = weft.outer(weft.tensor([1.0, 2.0, 1.0]), weft.tensor([-1.0, 0.0, 1.0])) / 8
        centre = weft.zeros(3, 3)
        centre[1, 1] = 1
        seen = weft.stack([centre, edge, edge.T])[:, None].repeat(CHANNELS, 1, 1, 1)
        self.register_buffer("seen", seen)  # of each channel: itself, and how it changes across and down
        self.think, self.act = nn.Conv2d(3 * CHANNELS, WIDTH, 1), nn.Conv2d(WIDTH, CHANNELS, 1)
        nn.init.zeros_(self.act.weight)
        nn.init.zeros_(self.act.bias)

    def forward(self, grid: weft.Tensor, steps: int = GROWTH) -> weft.Tensor:
        for _ in range(steps):
            around = nn.functional.conv2d(grid, self.seen, padding=1, groups=CHANNELS)
            change = self.act(self.think(around).relu())
            grid = grid + change * (weft.rand(len(grid), 1, SIDE, SIDE) < 0.5)
        return grid


def target() -> weft.Tensor:
    """A ring with a dot in it [row, column]."""
    places = weft.arange(SIDE) - (SIDE - 1) / 2
    radius = (places[:, None].square() + places.square()).sqrt()
    return ((radius - 6).abs() < 1.5).float() + (radius < 2).float()


def main() -> None:
    given = options(__doc__, 600)
    automaton, wanted = Automaton(), target()
    optimizer = weft.optim.Adam(automaton.parameters(), lr=3e-3)
    seed = weft.zeros(BATCH, CHANNELS, SIDE, SIDE)
    seed[:, :, SIDE // 2, SIDE // 2] = 1

    def step(grid: weft.Tensor) -> weft.Tensor:
        optimizer.zero_grad()
        grown = automaton(grid)
        loss = (grown[:, 0] - wanted).square().mean()
        loss.backward()
        for p in automaton.parameters():  # steps of one length: the gradient of a long growth is anything
            p.grad /= p.grad.norm() + 1e-8
        optimizer.step()
        return loss.detach()

    run = prepared(step, given)
    for i in range(given.steps):
        loss = run(seed)
        if i % 50 == 0 or i == given.steps - 1:
            print(f"step {i:4}  mean square of the difference {loss.item():.4f}")
    with picture(given, "row", "column after 0, 8, 16, 24 and 32 steps") as axes, weft.no_grad():
        grids, grid = [], seed[:1]
        for steps in (0, 8, 8, 8, 8):
            grid = automaton(grid, steps)
            grids.append(grid[0, 0])
        axes.imshow(weft.cat(grids, 1).numpy(), cmap="gray_r", vmin=0, vmax=1)


if __name__ == "__main__":
    main()
