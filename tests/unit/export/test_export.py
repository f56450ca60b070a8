"""An exported step gives the bits of the compiled one: its results and all of its state, in Python and in C."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.conftest import SEED
from tests.unit.export.in_c import ALLOWED, needs_compiler, run_in_c, undefined
from weft import nn
from weft.export.description import decode, encode
from weft.export.load import ExportedStep
from weft.nn import functional as F
from weft.support.errors import ArgumentError, ExportError, ParseError, ShapeError, StateError, ValueProblem


def _bits(value: Any) -> Any:
    if isinstance(value, weft.Tensor):
        return value.dtype, tuple(value.shape), value._data.tobytes()
    return value


def _leaves(result: Any) -> list[Any]:
    from weft.support import pytree

    return list(map(_bits, pytree.flatten(result)[0]))


def same_calls(step: Any, shipped: ExportedStep, calls: list[tuple[Any, ...]], count: int) -> list[bytes]:
    """Both are called so many times, with the same results. Returns the bytes of the tensors of each call."""
    given = []
    for i in range(count):
        wanted, got = (_leaves(f(*calls[i % len(calls)])) for f in (step, shipped))
        assert got == wanted
        given.append(b"".join(leaf[2] for leaf in got if isinstance(leaf, tuple)))
    return given


def stand_together(shipped: ExportedStep) -> None:
    """Let the process's generator stand where that of a state does."""
    (place,) = shipped.description.random
    seed, offset = (int(shipped._state[at : at + 8].view(np.uint64)[0]) for at in (place.seed, place.offset))
    weft.default_generator.set_state((seed, offset))


def same_state(step: Any, shipped: ExportedStep) -> None:
    """The state of the one is that of the other."""
    sources = [s.slot for s in step.entries[0].sources if type(s).__name__ == "StateSource"]
    state = {t._data.tobytes() for t in shipped.state_dict().values()}
    assert all(slot.array.tobytes() in state for slot in sources) and sources


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, list[Any]]:
    """A training step with dropout, exported after two calls; calls of three batch sizes."""
    weft.manual_seed(SEED)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.GELU(), nn.Linear(16, 3))
    optimizer = weft.optim.AdamW(model.parameters(), lr=1e-2)

    @weft.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach(), "norm": model[0].weight.grad.norm()}

    calls = [(weft.randn(n, 6), weft.randint(0, 3, (n,))) for n in (5, 8, 13)]
    for call in calls[:2]:
        step(*call)
    path = tmp_path_factory.mktemp("training") / "step"
    return step, step.export(path, bounds={"x": {0: (2, 64)}}), calls


@needs_compiler
def test_training_in_c_python_and_compiled_gives_the_same_bits(training: tuple[Any, Any, list[Any]]) -> None:
    step, exported, calls = training
    shipped = weft.load_exported(exported.object.with_suffix(""))
    threaded = weft.load_exported(exported.object.with_suffix(""), threads=2)
    state, given = run_in_c(exported, calls[:1], [5], 100, threads=2)
    stand_together(shipped)
    before = weft.counters.llvm_compiles
    wanted = same_calls(step, shipped, calls[:1], 100)
    assert given == wanted
    same_state(step, shipped)
    same_calls(threaded, weft.load_exported(exported.object.with_suffix("")), calls[:1], 5)
    shipped.save(exported.state.with_suffix(".python"))
    assert exported.state.with_suffix(".python").read_bytes() == state
    assert weft.counters.llvm_compiles == before
    assert undefined(exported) <= ALLOWED
    stand_together(shipped)
    # other sizes than it was exported for, from the same state
    same_calls(step, shipped, calls[1:], 4)
    same_state(step, shipped)


def test_manifest_names_state_sizes_and_random_numbers(training: tuple[Any, Any, list[Any]]) -> None:
    _, exported, _ = training
    step = decode(exported.manifest.read_text())
    assert step == exported.description and decode(encode(step)) == step
    assert [(s.name, s.least, s.most) for s in step.sizes] == [("x_0", 2, 64)]
    assert [(a.name, a.dtype, a.dims) for a in step.inputs] == [("x", "float32", ("s0", 6)), ("y", "int64", ("s0",))]
    names = [t.name for t in step.tensors]
    assert {"0.weight", "1.running_mean", "exp_avg of 0.weight", "grad of 4.bias"} <= set(names)
    assert len(set(names)) == len(names) and "AdamW.lr" in [n.name for n in step.numbers] and len(step.random) == 1
    assert all(t.offset % 64 == 0 for t in step.tensors) and step.state_bytes == exported.state.stat().st_size
    shipped = weft.load_exported(exported.object.with_suffix(""))
    assert step.arena_most is not None and step.arena_most >= shipped._arena_bytes(np.array([64]).ctypes.data)
    header = exported.header.read_text()
    assert f"#define STEP_STATE_BYTES {step.state_bytes}" in header and "float[x_0][6]: x" in header
    with pytest.raises(ParseError, match="format"):
        decode(json.dumps({**json.loads(exported.manifest.read_text()), "format": 0}))


def test_calls_that_it_is_not_for_are_refused(training: tuple[Any, Any, list[Any]]) -> None:
    _, exported, _ = training
    shipped = weft.load_exported(exported.object.with_suffix(""))
    state = shipped._state.tobytes()
    for call, error, text in (
        ((weft.randn(65, 6), weft.zeros(65, dtype=weft.int64)), ShapeError, "x_0 must lie between 2 and 64"),
        ((weft.randn(4, 7), weft.zeros(4, dtype=weft.int64)), ShapeError, "x has the dims"),
        ((weft.randn(4, 6), weft.zeros(5, dtype=weft.int64)), ShapeError, "the dims"),
        ((weft.randn(4, 6), weft.zeros(4)), ArgumentError, "y: takes a tensor of int64"),
        ((weft.randn(4, 6),), ArgumentError, "takes"),
        ((weft.randn(4, 6), weft.full((4,), 3)), Exception, "out of bounds|target"),
    ):
        with pytest.raises(error, match=text):
            shipped(*call)
        assert shipped._state.tobytes() == state
    with pytest.raises(StateError, match="bytes"):
        shipped.load_state(exported.header)


def test_numbers_and_seeds_of_the_state_are_the_callers(training: tuple[Any, Any, list[Any]]) -> None:
    _, exported, calls = training
    one, two = (weft.load_exported(exported.object.with_suffix("")) for _ in range(2))
    for shipped in (one, two):
        shipped.manual_seed(7)
        shipped.set_number("AdamW.lr", 0.0)
        shipped.set_number("AdamW.weight_decay", 0.0)
    before = one.state_dict()["0.weight"].clone()
    one(*calls[0]), two(*calls[0])
    assert (one.state_dict()["0.weight"] == before).all() and one._state.tobytes() == two._state.tobytes()
    assert one.numbers()["AdamW.lr"] == 0.0


@needs_compiler
def test_a_loop_of_a_thousand_steps_that_draws(tmp_path: Path) -> None:
    place = weft.randn(4, 2)
    field = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 2))

    @weft.compile
    def step(force):
        def body(i, y):
            return i + 1, y + 0.01 * (field(y) + force) + 0.001 * weft.randn(4, 2)

        with weft.no_grad():
            count, y = weft.while_loop(lambda i, y: (i < 1000) & (y.abs().sum() < 1e6), body, (weft.tensor(0), place))
            place.copy_(weft.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y * 0.5, (y,)))
        return count, place.sum()

    calls = [(weft.randn(4, 2),) for _ in range(3)]
    step(*calls[0])
    exported = step.export(tmp_path / "step")
    _, given = run_in_c(exported, calls, [], 100)
    shipped = weft.load_exported(tmp_path / "step")
    assert same_calls(step, shipped, calls, 100) == given
    same_state(step, shipped)
    assert shipped(*calls[0])[0].item() == 1000


def test_counts_views_numbers_and_presence_of_gradients(tmp_path: Path) -> None:
    class Trainer:
        count = 0

    trainer, w = Trainer(), weft.randn(3, requires_grad=True)

    @weft.compile
    def accumulate(batch, scale, n):
        trainer.count = trainer.count + 1
        loss = (w * batch["x"]).sum() * scale
        loss.backward()
        y = batch["x"] * trainer.count
        return {"t": y.t(), "all": (y, y[1:], batch["x"], n * 2, None, "text")}, trainer.count, w.grad

    calls = [({"x": weft.randn(n, 3)}, s, n) for n, s in ((4, 0.5), (6, 0.25), (3, 0.125))]
    for call in calls:
        accumulate(*call)
    w.grad = None
    accumulate.export(tmp_path / "step", calls[0])
    shipped = weft.load_exported(tmp_path / "step")
    same_calls(accumulate, shipped, calls, 7)
    assert shipped.numbers()["trainer.count"] == trainer.count
    result = shipped(*calls[0])[0]
    assert result["t"]._data.base is not None and result["all"][2] is calls[0][0]["x"]


def test_arguments_are_written_in_place(tmp_path: Path) -> None:
    step = weft.compile(lambda x: x.mul_(2).sum())
    step(weft.randn(2, 3))
    step.export(tmp_path / "step")
    x = weft.randn(5, 4)
    for argument in (x.clone(), x.t().clone().t()):
        result = weft.load_exported(tmp_path / "step")(argument)
        assert (argument == x * 2).all() and result.shape == ()


def test_what_python_does_is_refused_by_operator_and_line(tmp_path: Path) -> None:
    def eigenvalues(x):
        return weft.linalg.eigvalsh(x @ x.t())

    def selected(x):
        return x[x > 0] * 2

    def with_history(x):
        return (x * x.new_ones(3, 3).requires_grad_()).sum()

    for function, text in (
        (eigenvalues, r"NumPy.*eig.*test_export"), (selected, r"sizes that it finds.*test_export"),
        (with_history, "has a history"),
    ):
        step = weft.compile(function)
        step(weft.randn(3, 3))
        with pytest.raises(ExportError, match=text):
            step.export(tmp_path / "step")
    assert not list(tmp_path.iterdir())
    step = weft.compile(lambda x: x + 1)
    with pytest.raises(ExportError, match="has not been called"):
        step.export(tmp_path / "step")
    step(weft.randn(3, 3).t()[:, :2])
    with pytest.raises(ExportError, match="row-major"):
        step.export(tmp_path / "step")
    with pytest.raises(ValueProblem, match="names of functions"):
        step.export(tmp_path / "my step")
    with pytest.raises(ValueProblem, match="no target"):
        step.export(tmp_path / "step", (weft.ones(2),), target="z80")
    with pytest.raises(ValueProblem, match="no input"):
        step.export(tmp_path / "step", (weft.ones(2),), bounds={"z": {0: (1, 2)}})


def test_a_program_for_a_first_call_only_is_refused(tmp_path: Path) -> None:
    w = weft.randn(3, requires_grad=True)

    def step(x):
        if w.grad is not None:
            w.grad.zero_()
        (w * x).sum().backward()

    compiled = weft.compile(step)
    with pytest.raises(ExportError, match="first call"):
        compiled.export(tmp_path / "step", (weft.randn(3),))
    compiled(weft.randn(3))
    compiled.export(tmp_path / "step", (weft.randn(3),))


def test_objects_for_other_machines(tmp_path: Path) -> None:
    step = weft.compile(lambda x: (x.exp() * 2).sum())
    step(weft.randn(4))
    elf = b"\x7fELF"
    machines = {"x86-64": (elf, 62), "x86-64-v3": (elf, 62), "aarch64": (elf, 183), "wasm64": (b"\0asm", 0)}
    for target, (magic, machine) in machines.items():
        exported = step.export(tmp_path / target.replace("-", "_"), target=target)
        code = exported.object.read_bytes()
        assert code[:4] == magic and (not machine or code[18] == machine)
        assert exported.description.has_pool is (target != "wasm64")
    alone = step.export(tmp_path / "alone", threads=False)
    assert not alone.description.has_pool and "pool_start" not in alone.header.read_text()
    x = weft.randn(100_000)
    assert _bits(weft.load_exported(tmp_path / "alone")(x)) == _bits(step(x))


@needs_compiler
def test_a_shared_library_for_ctypes(tmp_path: Path) -> None:
    import ctypes

    step = weft.compile(lambda x: x * 3)
    step(weft.randn(4))
    exported = step.export(tmp_path / "step", shared=True)
    library = ctypes.CDLL(str(exported.library))
    library.step_arena_bytes.restype = ctypes.c_int64
    x, out, sizes = np.arange(5, dtype=np.float32), np.empty(5, np.float32), np.array([5])
    arena = np.empty(library.step_arena_bytes(ctypes.c_void_p(sizes.ctypes.data)), np.uint8)
    rows = [(ctypes.c_void_p * 1)(a.ctypes.data) for a in (x, out)]
    assert not library.step_step(None, *rows, *[ctypes.c_void_p(a.ctypes.data) for a in (sizes, arena)], None)
    assert (out == x * 3).all()
