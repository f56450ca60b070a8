"""Reinforcement learning: a small policy learns to keep a pole upright (REINFORCE with a baseline).

All carts of a batch are simulated at once with tensor operations. The rollout only needs the policy's values;
the training step is compiled.
"""

from __future__ import annotations

from run import options, prepared

import weft
from weft import nn

LENGTH, CARTS, DT = 100, 64, 0.02


def push(state: weft.Tensor, force: weft.Tensor) -> weft.Tensor:
    """The classic cart and pole (Barto, Sutton, Anderson, 1983), one Euler step: place, speed, angle, angular speed."""
    place, speed, angle, turning = state.unbind(-1)
    sine, cosine = weft.sin(angle), weft.cos(angle)
    common = (force + 0.05 * turning.square() * sine) / 1.1
    bending = (9.8 * sine - cosine * common) / (0.5 * (4 / 3 - 0.1 * cosine.square() / 1.1))
    sliding = common - 0.05 * bending * cosine / 1.1
    return weft.stack([place + DT * speed, speed + DT * sliding, angle + DT * turning, turning + DT * bending], -1)


@weft.no_grad()
def rollout(policy: nn.Module) -> tuple[weft.Tensor, weft.Tensor, weft.Tensor]:
    """States [time, cart, 4], actions, and whether each cart still stood before the step."""
    state, alive = (weft.rand(CARTS, 4) - 0.5) * 0.1, weft.ones(CARTS)
    states, actions, standing = [], [], []
    for _ in range(LENGTH):
        action = weft.bernoulli(policy(state)[:, 0].sigmoid())
        states.append(state)
        actions.append(action)
        standing.append(alive)
        state = push(state, (action * 2 - 1) * 10)
        alive = alive * (state[:, 2].abs() < 0.21) * (state[:, 0].abs() < 2.4)
    return weft.stack(states), weft.stack(actions), weft.stack(standing)


def main() -> None:
    given = options(__doc__, 60)
    # the logit of pushing right, and the expected return
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = weft.optim.Adam(policy.parameters(), lr=0.01)

    def step(states: weft.Tensor, actions: weft.Tensor, standing: weft.Tensor) -> weft.Tensor:
        optimizer.zero_grad()
        logits, expected = policy(states).unbind(-1)
        returns = standing.flip(0).cumsum(0).flip(0) / 20
        advantage = (returns - expected).detach()
        likelihood = -nn.functional.binary_cross_entropy_with_logits(logits, actions, reduction="none")
        loss = ((expected - returns).square() - likelihood * advantage) * standing
        (loss.sum() / standing.sum()).backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        return standing.sum(0).mean()

    run = prepared(step, given)
    for i in range(given.steps):
        lasted = run(*rollout(policy))
        if i % 10 == 0 or i == given.steps - 1:
            print(f"step {i:3}  the pole stands {lasted.item():5.1f} of {LENGTH} steps")


if __name__ == "__main__":
    main()
