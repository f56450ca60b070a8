"""What a step reads of Python and that changes between two calls, or that changes whenever it is read, is seen or
refused: kinds_of_state.txt over four calls, in processes of their own. Kinds that neither are stand in
docs/differences.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import SEED
from tests.unit.nn.run_kinds_of_state import kinds

MODES = ["compile", "split", "within"]
COUNT = int(os.environ.get("WEFT_STALE", "12"))  # of some 900
ONCE_STALE = [  # one of each sort that was
    "namedtuple defaults", "property of C on a module's class", "attribute on a module's class",
    "import that fails at first", "importlib.import_module", "np.random.get_state", "mktime", "list subclass getitem",
    "parametrize.cached over calls and a new weight", "dir of a module", "class gets a constructor later",
    "property of C on an instance", "np rng spawn", "distribution within a distribution",
    "list that is a hook's object", "name of a module that others have",
]  # fmt: skip


def drawn(seed: int, count: int) -> list[str]:
    """One of each run of kinds, which are alike: as many seeds, one after the other, as a run is long draw every kind.
    """
    names = list(kinds())
    ends = [len(names) * i // min(count, len(names)) for i in range(min(count, len(names)) + 1)]
    return [names[a + (seed + a) % (b - a)] for a, b in pairwise(ends)]


NAMES = list(dict.fromkeys([*ONCE_STALE, *drawn(SEED, COUNT)]))
RUNNER = Path(__file__).with_name("run_kinds_of_state.py")
ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each kind runs in a process that is forked")


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest) -> dict[str, dict[str, str]]:
    """Of the kinds that this run is about."""
    items = [item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)]
    chosen = json.dumps({item.callspec.params["name"]: MODES for item in items})
    run = subprocess.run(
        [sys.executable, str(RUNNER)], input=chosen, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    found: dict[str, dict[str, str]] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_four_calls_follow_or_are_refused(name: str, verdicts: dict[str, dict[str, str]]) -> None:
    assert verdicts[name] == dict.fromkeys(MODES, "")
