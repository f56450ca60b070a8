"""Knobs: typed, scoped, and every one of them read by something."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import weft
from weft.support.knobs import KNOBS, Knobs

ROOT = Path(__file__).resolve().parents[3]


def test_every_knob_has_a_type_and_a_default_of_it() -> None:
    hints = get_type_hints(Knobs)
    assert hints.keys() == KNOBS.keys()
    for name, knob in KNOBS.items():
        assert isinstance(knob.default, getattr(hints[name], "__origin__", hints[name])), name


def test_every_knob_is_read_somewhere() -> None:
    sources = [p.read_text(encoding="utf-8") for p in (ROOT / "weft").rglob("*.py") if p.name != "knobs.py"]
    unread = [name for name in KNOBS if not any(re.search(rf"\bknobs\.{name}\b", text) for text in sources)]
    assert unread == []


def test_a_block_changes_knobs_and_puts_them_back() -> None:
    before = weft.knobs.debug, weft.knobs.check
    with pytest.raises(KeyError), weft.knobs(debug="guards, passes", check="1"):
        assert weft.knobs.debug == {"guards", "passes"} and weft.knobs.check == 1
        raise KeyError
    assert (weft.knobs.debug, weft.knobs.check) == before


def test_unknown_names_and_values_are_refused_and_change_nothing() -> None:
    before = weft.knobs.check
    for wrong in ({"check": 1, "chekc": 1}, {"check": 2, "backend": "gpu"}):
        with pytest.raises(ValueError, match=r"chekc|gpu"), weft.knobs(**wrong):
            pass
    assert weft.knobs.check == before


def test_the_environment_is_checked_at_the_start() -> None:
    command = [sys.executable, "-c", "import weft"]
    done = subprocess.run(
        command, cwd=ROOT, env={"PATH": "", "WEFT_BACKEND": "gpu"}, capture_output=True, text=True, timeout=100
    )
    assert done.returncode != 0 and "WEFT_BACKEND=gpu: 'gpu' is not one of llvm, interpret, numpy" in done.stderr


@pytest.mark.parametrize(("environment", "count"), [
    ({"OMP_NUM_THREADS": "3"}, 3), ({"OMP_NUM_THREADS": "4,2"}, 4),
    ({"OMP_NUM_THREADS": "3", "WEFT_NUM_THREADS": "2"}, 2),
    ({"OMP_NUM_THREADS": "many"}, 0),
])
def test_the_number_of_threads_of_others_counts_where_ones_own_is_not_set(
    environment: dict[str, str], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_NUM_THREADS", "WEFT_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    assert Knobs().num_threads == count


def test_a_mistyped_value_is_one_line_that_names_the_near_one() -> None:
    for command in (["-c", "import weft"], ["-m", "weft", "knobs"]):
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env={"PATH": "", "WEFT_DEBUG": "nann"}, capture_output=True,
            text=True, timeout=100,
        )
        assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, done.stderr
        assert "WEFT_DEBUG=nann: 'nann' is not one of" in done.stderr and "did you mean nan?" in done.stderr


def test_who_follows_a_knob_is_told_its_value_now_and_later() -> None:
    told: list[object] = []
    weft.knobs.follow("fuel", told.append)
    with weft.knobs(fuel=3):
        pass
    assert told == [-1, 3, -1]
