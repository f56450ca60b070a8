"""Classes and enumerations in files: they come back without their source; files of the user's beside programs."""

from __future__ import annotations

import enum
import io
import subprocess
import sys
from typing import Optional

import pytest

import weft
import weft.jit
from tests.unit.jit.test_classes import Counter, Holding, counted, made, raised
from tests.unit.jit.test_files import again, stored
from weft import Tensor, nn
from weft.support.errors import ParseError


class Mode(enum.Enum):
    PLUS = 1
    MINUS = 2


class Moded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mode = Mode.MINUS
        self.counters: list[Counter] = [Counter(1), Counter(2)]
        self.last: Optional[Tensor] = None  # noqa: UP045

    def forward(self, x: Tensor, mode: Mode) -> Tensor:
        if mode == self.mode:
            x = -x
        self.last = x
        return x + self.counters[1].up()


def test_programs_that_make_objects_come_back() -> None:
    assert again(weft.jit.script(counted))(3) == (*counted(3)[:4], True, True)
    found = again(weft.jit.script(made))(4)
    assert found.value == 4 and found.up(2) == 6 and found.twice == 12
    found.twice = 50
    assert again(weft.jit.script(raised))(Counter(3)) == 4
    assert found.value == 25 and type(found).__name__ == "Counter"


def test_modules_with_objects_and_members_come_back() -> None:
    module = weft.jit.script(Moded())
    loaded = again(module)
    for mode in Mode:
        assert weft.equal(module(weft.ones(2), mode), loaded(weft.ones(2), mode))
    assert loaded.mode is Mode.MINUS and weft.equal(loaded.last, weft.ones(2) * -1)
    twice = again(again(weft.jit.script(Holding())))
    assert twice(weft.zeros(1)).item() == 2 and twice.counter.value == 2


def test_a_fresh_process_needs_no_class(tmp_path) -> None:
    path = tmp_path / "made.weft"
    weft.jit.script(made).save(path)
    code = f"import weft, weft.jit; c = weft.jit.load({str(path)!r})(3); print(c.up(2), c.twice, type(c).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["5", "10", "Counter"]


def test_files_of_the_user_s_lie_beside_the_program() -> None:
    scripted = weft.jit.script(nn.Linear(1, 1))
    extra = {"notes.txt": "bar", "more.bin": b"\x00\xff"}
    content = scripted.save_to_buffer(_extra_files=extra)
    found: dict[str, object] = {"notes.txt": "", "more.bin": "", "absent": ""}
    loaded = weft.jit.load(io.BytesIO(content), _extra_files=found)
    assert found == {"notes.txt": b"bar", "more.bin": b"\x00\xff", "absent": b""}
    assert weft.equal(loaded.weight, scripted.weight)
    with pytest.raises(weft.support.errors.ArgumentError, match="texts or bytes"):
        scripted.save_to_buffer(_extra_files={"a": 3})


DAMAGE = {
    "no name": (lambda one: one.update(name="Coun er"), "is no name"),
    "Python's": (lambda one: one["attributes"].update({"__class__": "int"}), "that are Python's"),
    "a method": (lambda one: one["methods"].update(up=99), "do not fit"),
    "an attribute": (lambda one: one["attributes"].pop("value"), "uses the member 'value'"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_class_loads_nothing(case, tmp_path) -> None:
    change, words = DAMAGE[case]
    content = weft.load(io.BytesIO(stored(weft.jit.script(made))))
    change(content["classes"][0])
    weft.save(content, tmp_path / "damaged")
    with pytest.raises(ParseError, match=words):
        weft.jit.load(tmp_path / "damaged")


class Within(nn.Module):
    def __init__(self, inner: nn.Module, other: nn.Module) -> None:
        super().__init__()
        self.inner, self.other = inner, other

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * self.other(x)


class Shift(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by

    def forward(self, x: Tensor) -> Tensor:
        return x + self.by


def test_loaded_modules_are_parts_of_others() -> None:
    first, second = (again(weft.jit.script(Shift(by))) for by in (1.0, 2.0))
    x = weft.ones(2)
    whole = weft.jit.script(Within(first, second))
    assert whole(x).tolist() == [6.0, 6.0] and again(again(whole))(x).tolist() == [6.0, 6.0]
    kept = weft.jit.script(Shift(3.0))
    content = stored(kept)
    several = [weft.jit.load(io.BytesIO(content)) for _ in range(2)]
    assert weft.jit.script(Within(kept, weft.jit.script(Within(*several))))(x).tolist() == [64.0, 64.0]
