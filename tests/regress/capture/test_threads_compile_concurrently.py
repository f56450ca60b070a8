"""The first programs of a process, compiled by several threads at once: what they share is made
once and stays mapped."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import weft

PROGRAM = """
import threading
import weft

start = threading.Barrier(4)
wrong = []

def work(number):
    start.wait()
    for k in range(6):
        amount = number * 100 + k + 0.5
        f = weft.compile(lambda x: (x @ x * amount + 1).sum(0))
        if f(weft.ones(3, 3)).tolist() != [3 * (3 * amount + 1)] * 3:
            wrong.append(amount)

threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(wrong)
"""


def test_four_threads() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=Path(__file__).parents[3], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr[-2000:]


def test_a_first_call_from_many_threads_is_captured_once() -> None:
    """Those that wait for the capture take its program; all calls count."""
    model = weft.nn.Sequential(weft.nn.BatchNorm1d(4), weft.nn.Linear(4, 1))
    count = weft.zeros(1)

    @weft.compile
    def step(x: Any) -> Any:
        count.add_(1)
        return model(x).sum()

    x, start, failed = weft.rand(8, 4), threading.Barrier(8), []

    def work() -> None:
        start.wait()
        try:
            for _ in range(3):
                step(x).backward()
        except Exception as error:
            failed.append(error)

    before = weft.counters.captures
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and weft.counters.captures == before + 1
    assert count.item() == count._version == 24


def test_calls_in_other_threads_do_not_disturb_a_capture() -> None:
    """A program that runs elsewhere raises versions of tensors that this capture has saved: no error,
    and none of them is lost."""
    w = weft.nn.Parameter(weft.ones(4))
    writes = weft.compile(lambda: w.detach().mul_(1.0))
    writes()
    version = w._version

    @weft.compile
    def step(x: Any) -> Any:
        loss = (x * w * w).sum()
        other = threading.Thread(target=writes)
        other.start()
        other.join()
        loss.backward()
        return loss.detach()

    assert step(weft.ones(4)).item() == 4.0
    assert w._version == version + 1
    assert w.grad is not None and w.grad.tolist() == [2.0] * 4


def test_a_write_of_the_function_itself_is_still_an_error() -> None:
    w = weft.nn.Parameter(weft.ones(4))

    def step(x: Any) -> None:
        loss = (x * w * w).sum()
        with weft.no_grad():
            w.mul_(2.0)
        loss.backward()

    for run in (step, weft.compile(step)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            run(weft.ones(4))
        w.data = weft.ones(4)


OWN_MODELS = """
import threading
import weft

nn, wrong, start = weft.nn, [], threading.Barrier(8)

def work(i):
    start.wait()
    kinds = [weft.optim.Adam, weft.optim.SGD, weft.optim.AdamW, weft.optim.RMSprop]
    model = nn.Sequential(nn.Linear(4, 8), [nn.Tanh, nn.ReLU, nn.GELU, nn.SiLU][i % 4](), nn.Linear(8, 1))
    optimizer = kinds[i % 4](model.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step = [weft.compile, lambda f: weft.compile(f, split=True)][i % 2](step)
    try:
        for call in range(4):
            for group in optimizer.param_groups:
                group["lr"] = 0.01 * (call + 1)
            float(step(weft.ones(2 + call % 3, 4)))
            if any(group["lr"] != 0.01 * (call + 1) for group in optimizer.param_groups):
                wrong.append("another thread has set the rate back")
    except Exception as error:
        wrong.append(error)

threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(wrong)
"""


def test_eight_threads_with_models_of_their_own() -> None:
    """What the library itself makes when it is first asked for is no assignment; an optimizer of another thread is left
    alone."""
    done = subprocess.run(
        [sys.executable, "-c", OWN_MODELS], cwd=Path(__file__).parents[3], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr[-2000:] + done.stdout
