"""Reinforcement learning: a pendulum learns to swing up and stay there (PPO: Schulman et al., Proximal Policy
Optimization, 2017).

All pendulums of a batch are simulated at once with tensor operations; the rollout and the training step are compiled,
and the loop of the rollout, with its random draws, is one native loop.
"""

from __future__ import annotations

import math

from run import options, picture, prepared

import weft
from weft import nn
from weft.distributions import Normal

LENGTH, PENDULUMS, DT = 100, 64, 0.05
DISCOUNT, TRACE, CLIP, EPOCHS, PARTS = 0.95, 0.9, 0.2, 6, 4


def move(angle: weft.Tensor, speed: weft.Tensor, torque: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor, weft.Tensor]:
    """The next angle (0 is up) and speed, and the reward: near 0 where it stands upright and quietly."""
    torque = 2 * torque.clamp(-1, 1)
    leaning = (angle + math.pi) % (2 * math.pi) - math.pi
    reward = -(leaning.square() + 0.1 * speed.square() + 0.001 * torque.square())
    speed = (speed + DT * (15 * weft.sin(angle) + 3 * torque)).clamp(-8, 8)
    return angle + DT * speed, speed, reward / 8


class Agent(nn.Module):
    """What is seen of a pendulum, to the mean of the torque and the expected return."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = (
            nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)) for _ in range(2)
        )
        self.log_spread = nn.Parameter(weft.full((), -0.5))

    def policy(self, seen: weft.Tensor) -> Normal:
        return Normal(self.actor(seen)[..., 0], self.log_spread.exp())

    def value(self, seen: weft.Tensor) -> weft.Tensor:
        return self.critic(seen)[..., 0]


def sight(angle: weft.Tensor, speed: weft.Tensor) -> weft.Tensor:
    return weft.stack([weft.cos(angle), weft.sin(angle), speed / 8], -1)


def main() -> None:
    given = options(__doc__, 40)
    agent = Agent()
    optimizer = weft.optim.Adam(agent.parameters(), lr=2e-3)

    def rollout() -> tuple[weft.Tensor, ...]:
        """What was seen, torques, their log probabilities, advantages and returns [time, pendulum]; the mean reward."""
        with weft.no_grad():
            angle, speed = math.pi * (2 * weft.rand(PENDULUMS) - 1), 2 * weft.rand(PENDULUMS) - 1
            seen, torques, logs, rewards = [], [], [], []
            for _ in range(LENGTH):
                seen.append(sight(angle, speed))
                policy = agent.policy(seen[-1])
                torques.append(policy.sample())
                logs.append(policy.log_prob(torques[-1]))
                angle, speed, reward = move(angle, speed, torques[-1])
                rewards.append(reward)
            values = agent.value(weft.stack([*seen, sight(angle, speed)]))
            advantage, advantages = weft.zeros(PENDULUMS), []
            for t in reversed(range(LENGTH)):
                surprise = rewards[t] + DISCOUNT * values[t + 1] - values[t]
                advantage = surprise + DISCOUNT * TRACE * advantage
                advantages.append(advantage)
            gained = weft.stack(advantages).flip(0)
            return (
                weft.stack(seen), weft.stack(torques), weft.stack(logs), gained, gained + values[:-1],
                weft.stack(rewards).mean(),
            )  # fmt: skip

    def step(
        seen: weft.Tensor, torques: weft.Tensor, logs: weft.Tensor, gained: weft.Tensor, returns: weft.Tensor
    ) -> None:
        optimizer.zero_grad()
        gained = (gained - gained.mean()) / (gained.std() + 1e-8)
        ratio = (agent.policy(seen).log_prob(torques) - logs).exp()
        better = weft.minimum(ratio * gained, ratio.clamp(1 - CLIP, 1 + CLIP) * gained)
        loss = 0.5 * (agent.value(seen) - returns).square().mean() - better.mean()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()

    play, learn, course = prepared(rollout, given), prepared(step, given), []
    for i in range(given.steps):
        *batch, reward = play()
        course.append(reward.item())
        for _ in range(EPOCHS):
            for part in weft.randperm(LENGTH * PENDULUMS).chunk(PARTS):
                learn(*(x.flatten(0, 1)[part] for x in batch))
        if i % 10 == 0 or i == given.steps - 1:
            print(f"step {i:3}  mean reward {reward.item():.3f}")
    with picture(given, "mean reward", "rollout") as axes:
        axes.plot(course, label="mean reward (0 is best)")


if __name__ == "__main__":
    main()
