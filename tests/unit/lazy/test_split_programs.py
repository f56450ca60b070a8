"""Programs as people write them, as split functions: the same numbers as eager mode, and few programs."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import weft
from tests.deferred import deferred
from weft import lazy, nn


def compiles():
    return lazy.metrics.counter_value("UncachedCompile") or 0


class Walk:
    """An environment with an interface like a gym's: NumPy observations, rewards that Python computes."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.steps = 0
        self.episodes = []  # the actions of each

    def reset(self):
        self.place = np.zeros(3, np.float32)
        self.steps = 0
        self.episodes.append([])
        return self.place, {}

    def step(self, action):
        self.steps += 1
        self.episodes[-1].append(action)
        self.place[action % 3] += 1 if action < 3 else -1  # in place: an observation is the environment's own memory
        self.place += self.rng.normal(0, 0.05, 3).astype(np.float32)
        reward = -float(np.abs(self.place).sum())
        return self.place, reward, bool(reward < -9), self.steps >= 8, {}


def reinforce(seed):
    """A function that plays and learns from an episode; what it logs."""
    weft.manual_seed(seed)
    policy = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 6))
    optimizer = weft.optim.Adam(policy.parameters(), lr=2e-2)
    environment, log, best = Walk(seed), [], {}

    def episode():
        place, _ = environment.reset()
        logs, rewards = [], []
        while True:
            distribution = nn.functional.log_softmax(policy(weft.from_numpy(place)), -1)
            action = int(weft.multinomial(distribution.exp(), 1))
            logs.append(distribution[action])
            place, reward, ended, cut, _ = environment.step(action)
            rewards.append(reward)
            if ended or cut:
                break
        returns = weft.tensor(np.cumsum(rewards[::-1])[::-1].copy(), dtype=weft.float32)
        loss = -(weft.stack(logs) * (returns - returns.mean())).sum()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 5.0)
        optimizer.step()
        log.append(f"{loss:.3f}")
        if not best or sum(rewards) > best["reward"]:
            best.update(reward=sum(rewards), weights=copy.deepcopy(policy.state_dict()))
        return loss, len(rewards)

    return episode, policy, log, best, environment


def first_change(episodes):
    """Whether the last episode has an action other than the one that all before it had in that place."""
    *before, last = episodes
    seen = [{e[i] for e in before if i < len(e)} for i in range(len(last))]
    return any(len(actions) == 1 and action not in actions for actions, action in zip(seen, last, strict=True))


def test_an_agent_learns_from_an_environment(rng):
    seed = int(rng.integers(1000))
    plain, policy, log, best, _ = reinforce(seed)
    wanted = [plain() for _ in range(4)]
    function, other, lines, found, environment = reinforce(seed)
    step = deferred(function, backend="interpret")
    made = [step() for _ in range(4)]
    assert [n for _, n in made] == [n for _, n in wanted] and len(lines) == len(log)
    np.testing.assert_allclose([float(x) for x, _ in made], [float(x) for x, _ in wanted], rtol=1e-3, atol=1e-3)
    assert found["reward"] == best["reward"]
    names = {where.rsplit(": ", 1)[1] for where in step.cuts}
    assert "item()" in names  # the action; the environment is stepped between two programs
    settled, lengths = compiles(), {n for _, n in made}
    more = []
    for seed in range(3):  # (both draw from one generator)
        weft.manual_seed(seed)
        wanted = plain()
        weft.manual_seed(seed)
        more.append((wanted[1], step()[1]))
    met = len({n for _, n in more} - lengths)  # learning from so many actions is new,
    changed = sum(first_change(environment.episodes[1:i]) for i in range(5, 8))  # and an action that never changed
    assert compiles() - settled <= 2 * met + changed
    for p, q in zip(policy.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(p.detach(), q.detach(), rtol=1e-3, atol=1e-4)


def test_a_recurrence_stops_where_its_values_say(rng):
    cell, head = nn.LSTMCell(4, 8), nn.Linear(8, 1)
    parameters = [*cell.parameters(), *head.parameters()]
    twins = copy.deepcopy((cell, head))

    def make(cell, head, parameters):
        optimizer = weft.optim.SGD(parameters, lr=0.1, momentum=0.9)

        def step(x, bound):
            h = c = weft.zeros(x.shape[1], 8)
            outputs = []
            for row in x:
                h, c = cell(row, (h, c))
                outputs.append(head(h))
                if outputs[-1].abs().mean() > bound:
                    break
            loss = weft.stack(outputs).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss, len(outputs)

        return step

    plain = make(*twins, [*twins[0].parameters(), *twins[1].parameters()])
    step = deferred(make(cell, head, parameters))
    lengths = set()
    for _ in range(8):
        x, bound = weft.tensor(rng.standard_normal((6, 3, 4)).astype(np.float32)), float(rng.uniform(0.05, 0.6))
        (a, n), (b, m) = step(x, bound), plain(x, bound)
        lengths.add(n)
        assert n == m
        np.testing.assert_allclose(a.item(), b.item(), rtol=1e-3, atol=1e-5)
    assert sum(step.cuts.values()) >= 8 and len(step.cuts) == 1
    assert compiles() <= 6 + 2 * len(lengths) + 1


def test_losses_are_printed_on_the_way(rng, capsys):
    model = nn.Linear(3, 2)
    optimizer = weft.optim.AdamW(model.parameters(), lr=0.05)

    @deferred
    def epoch(batches):
        total = 0.0
        for i, (x, y) in enumerate(batches):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad(set_to_none=i % 2 == 0)
            loss.backward()
            optimizer.step()
            total += loss.item()
            if i % 2:
                print(f"{i}: {loss.item():.4f}")
        return total / len(batches)

    def batches(n):
        return [
            (weft.tensor(rng.standard_normal((k, 3)).astype(np.float32)), weft.tensor(rng.integers(0, 2, k)))
            for k in rng.integers(2, 30, n)
        ]

    epoch(batches(4))
    settled = compiles()
    epoch(batches(8))
    assert compiles() <= settled + 1 and settled <= 4
    assert sum(epoch.cuts.values()) == 12  # one for each step: the loss that is printed is there already
    assert len(capsys.readouterr().out.splitlines()) == 6


def test_a_cut_for_nothing_new_is_none():
    x = weft.ones(3)

    @deferred
    def step():
        x.add_(1)
        for _ in range(4):
            x[0].item(), x.sum().item(), x.tolist()

    step()
    assert sum(step.cuts.values()) == 5  # what add_ wrote, once, and a sum each time


def test_no_sync_within_a_split_function():
    @deferred
    def step(x):
        with lazy.no_sync():
            return (x + 1).item()

    with pytest.raises(RuntimeError, match=r"no_sync\(\).*item\(\)"):
        step(weft.ones(()))
