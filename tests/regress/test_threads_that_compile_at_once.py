"""The first programs of a process, compiled by several threads at once: what they share is made once and stays mapped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr[-2000:]
