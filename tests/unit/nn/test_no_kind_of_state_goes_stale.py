"""What a step reads of Python and that changes between two calls, or that changes whenever it is read, is seen or
refused: kinds_of_state.txt over four calls, in processes of their own. Kinds that neither are stand in
docs/differences.md."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SEED
from tests.unit.nn.run_kinds_of_state import kinds

COUNT = int(os.environ.get("WEFT_STALE", "12"))  # of some 800
NAMES = random.Random(SEED).sample(sorted(kinds()), min(COUNT, len(kinds())))
RUNNER = Path(__file__).with_name("run_kinds_of_state.py")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each kind runs in a process that is forked")


@pytest.fixture(scope="module")
def verdicts() -> dict[str, dict[str, str]]:
    chosen = json.dumps({name: ["compile", "split"] for name in NAMES})
    run = subprocess.run([sys.executable, str(RUNNER)], input=chosen, capture_output=True, text=True, check=True)
    found: dict[str, dict[str, str]] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_four_calls_follow_or_are_refused(name: str, verdicts: dict[str, dict[str, str]]) -> None:
    assert verdicts[name] == {"compile": "", "split": ""}
