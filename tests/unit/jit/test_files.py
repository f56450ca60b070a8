"""Programs in files: they come back without their source, compute the same, and a damaged file loads nothing."""

from __future__ import annotations

import contextlib
import inspect
import io
import subprocess
import sys

import numpy as np
import pytest

import weft
import weft.jit
import weft.nn as nn
from tests.jit_programs.test_programs import INTERPRETED, PROGRAMS, draw, outcome, same
from tests.unit.jit.test_modules import Net, Shared
from weft.jit.interpreter.hot import compiled_after
from weft.support.errors import ParseError


def stored(scripted) -> bytes:
    f = io.BytesIO()
    weft.jit.save(scripted, f)
    return f.getvalue()


def again(scripted):
    return weft.jit.load(io.BytesIO(stored(scripted)))


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_a_stored_program_computes_the_same(function) -> None:
    scripted = weft.jit.script(function)
    loaded = again(scripted)
    assert loaded.schema == scripted.schema and str(loaded.graph) == str(scripted.graph)
    rng = np.random.default_rng(4)
    args = [draw(p.annotation, rng) for p in inspect.signature(function).parameters.values()]
    with compiled_after(0, INTERPRETED):
        assert same(outcome(scripted, args), outcome(loaded, args))


class Stored(nn.Module):
    """A Module with modules whose Python is called, attributes and an unused method."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.lstm = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.LSTM(2, 3)
        self.seen, self.k = [1], 3

    def forward(self, x, n: int = 2):
        x = self.norm(self.conv(x))
        out, _ = self.lstm(x.flatten(2).permute(2, 0, 1))
        self.seen.append(n)
        return out * self.k + len(self.seen)


def test_a_stored_module_computes_and_trains_the_same() -> None:
    scripted = weft.jit.script(Stored())
    loaded = again(scripted)
    assert list(loaded.state_dict()) == list(scripted.state_dict()) and loaded.training
    x = weft.randn(2, 1, 5, 5)
    for training in (True, False):
        a, b = (m.train(training)(x, n=4) for m in (scripted, loaded))
        assert weft.equal(a, b)
    a.sum().backward(), b.sum().backward()
    assert all(weft.equal(p.grad, q.grad) for p, q in zip(scripted.parameters(), loaded.parameters(), strict=True))
    assert loaded.seen == scripted.seen


def test_shared_parameters_stay_shared() -> None:
    loaded = again(Shared())
    assert loaded.a is loaded.b and len(list(loaded.parameters())) == 3
    assert weft.equal(loaded.twice(weft.ones(2, 2)), weft.full((2, 2), 3.0))


def test_a_fresh_process_needs_no_source(tmp_path) -> None:
    unit = weft.jit.CompilationUnit(
        "def f(x, n: int = 3):\n    for i in range(n):\n        x = x * i + 1\n    return x\n"
    )
    path = tmp_path / "program.weft"
    unit.f.save(path)
    code = f"import weft, weft.jit; print(weft.jit.load({str(path)!r})(weft.ones(2)).tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == str(unit.f(weft.ones(2)).tolist())


def test_a_newer_version_is_refused(tmp_path) -> None:
    weft.save({"weft.jit": 99, "root": {}}, tmp_path / "new")
    with pytest.raises(NotImplementedError, match="version 99"):
        weft.jit.load(tmp_path / "new")
    weft.jit.CompilationUnit("def f(x):\n    return x\n").f.save(tmp_path / "mine")
    stored_parts = weft.load(tmp_path / "mine")
    assert stored_parts["version"] == 1
    weft.save({**stored_parts, "version": 99}, tmp_path / "mine")
    with pytest.raises(NotImplementedError, match="version 99"):
        weft.jit.load(tmp_path / "mine")
    weft.save({"x": weft.ones(1)}, tmp_path / "other")
    with pytest.raises(ParseError, match="holds no program"):
        weft.jit.load(tmp_path / "other")


def test_what_cannot_be_stored_is_named() -> None:
    with pytest.raises(TypeError, match=r"calls .*in_python, which is Python's"):
        stored(weft.jit.script(Net(3)))
    with pytest.raises(TypeError, match="can be saved, not a function"):
        stored(stored)


DAMAGE = {
    "prim::CallBuiltin": (
        "aten::relu(%x)",
        'prim::CallBuiltin("weft.save", args=[%x], names=[], type="Tensor")',
        "no function of weft's",
    ),
    "outside": (
        "aten::relu(%x)",
        'prim::CallBuiltin("os.system", args=[%x], names=[], type="Tensor")',
        "no function of weft's",
    ),
    "python": ("aten::relu(%x)", 'prim::PythonOp("f", args=[%x], names=[], type="Tensor")', "of Python's"),
    "member": ("aten::relu(%x)", 'prim::GetAttr(None, "secret", type="Tensor")', "uses the value 'secret'"),
    "operator": ("aten::relu(%x)", "aten::unheard(%x)", "no operator aten::unheard"),
    "twice": ("%0: Tensor = aten::relu(%x)", "%x: Tensor = aten::relu(%x)", "%x is defined twice"),
    "undefined": ("aten::relu(%x)", "aten::relu(%y)", "%y is not defined"),
    "count": ("aten::relu(%x)", "aten::relu()", "needs argument"),
    "type": ("%0: Tensor", "%0: int", "results in int"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_graph_that_breaks_a_rule_is_refused(case, tmp_path) -> None:
    old, new, words = DAMAGE[case]
    unit = weft.jit.CompilationUnit("def f(x):\n    return weft.relu(x)\n")
    content = weft.load(io.BytesIO(stored(unit.f)))
    text = content["programs"][0]["graph"]
    assert old in text
    content["programs"][0]["graph"] = text.replace(old, new)
    weft.save(content, tmp_path / "damaged")
    with pytest.raises(ParseError, match=words.replace("(", r"\(")):
        weft.jit.load(tmp_path / "damaged")


def test_bytes_that_changed_load_or_are_refused() -> None:
    content = stored(weft.jit.script(Stored()))
    rng = np.random.default_rng(7)
    for i in range(60):
        damaged = bytearray(content)
        for at in rng.integers(0, len(content) // 2, int(rng.integers(1, 4))):
            damaged[at] = int(rng.integers(256))
        if i % 3 == 0:
            damaged = damaged[: int(rng.integers(len(content)))]
        with contextlib.suppress(ParseError, NotImplementedError):
            weft.jit.load(io.BytesIO(bytes(damaged)))
