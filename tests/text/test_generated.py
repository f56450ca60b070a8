"""The Python that weft generates for one call of an operator with gradients and for one compiled call, as it reads.
WEFT_BLESS=1 writes what comes out, to be read before it is kept."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

EXPECTED = Path(__file__).with_name("generated.txt")
PROGRAM = """
import weft
x, w = weft.tensor([1.0, 2.0], requires_grad=True), weft.tensor([1.0, 2.0])
weft.atan2(x, w)
weft.compile(lambda t: t * 2)(w)
"""
SHOWN = {"lookup": "def run(op, args)", "record": "def record(args, out)", "quick match": "def quick(leaves)"}


def test_the_generated_functions_read_so() -> None:
    environment = {**os.environ, "WEFT_DEBUG": "code"}
    command = [sys.executable, "-c", PROGRAM]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    texts = re.findall(r"^---- <weft ([a-z ]+) \d+>\n(.*?)(?=^----|\Z)", printed.stderr, re.MULTILINE | re.DOTALL)
    shown = [
        next(f"---- {label}\n{text}" for name, text in texts if name == label and head in text)
        for label, head in SHOWN.items()
    ]
    if os.environ.get("WEFT_BLESS"):
        EXPECTED.write_text("".join(shown))
    assert "".join(shown) == EXPECTED.read_text()
