"""Exported models: ONNX's checker takes them, ONNX's reference evaluator and weft.onnx.load compute what weft computes,
for the example and for other inputs."""

from __future__ import annotations

import inspect
import io
import os
from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import weft
import weft.jit
import weft.onnx
from tests.jit_programs.test_programs import PROGRAMS, draw
from tests.unit.onnx.models import SCRIPTED, control_models, copied, flat, kinds, models, others
from weft import Tensor
from weft.nn import functional as F

SHARE = 1 if os.environ.get("WEFT_AGREE") else 3  # of the models that one run checks: one of so many


def exported(model: Any, args: Any, **options: Any) -> Any:
    """The model as ONNX's object; the checker has seen it."""
    file = io.BytesIO()
    weft.onnx.export(model, copied(args), file, **options)
    written = onnx.load_from_string(file.getvalue())
    onnx.checker.check_model(written, full_check=True)
    return written


def agree(model: Any, written: Any, args: Any) -> None:
    """weft, the reference evaluator and the model read back give the same."""
    expected = flat(model(*copied(args)))
    tensors = [a for a in args if isinstance(a, Tensor)]
    names = [i.name for i in written.graph.input]
    found = ReferenceEvaluator(written).run(None, dict(zip(names, [t.numpy() for t in tensors], strict=True)))
    read = flat(weft.onnx.load(written)(*tensors))
    assert len(expected) == len(found) == len(read)
    for a, b, c in zip(expected, found, read, strict=True):
        assert a.shape == np.shape(b) == c.shape and a.dtype == c.dtype
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(c, a, rtol=1e-3, atol=1e-4)


def test_models_give_what_weft_gives(rng):
    drawn = list(models(rng))
    assert len(drawn) >= 60
    start = int(rng.integers(SHARE))
    for i, (_, model, args, axes) in enumerate(drawn):
        if i % SHARE == start or isinstance(model, (weft.jit.ScriptFunction, weft.jit.ScriptModule)):
            written = exported(model, args, dynamic_axes=axes)
            agree(model, written, args)
            agree(model, written, others(args, rng))


def test_branches_and_loops_become_nodes(rng):
    found: Counter[str] = Counter()
    for function, inputs, axes in SCRIPTED:
        args = tuple(5 if k == "n" else weft.from_numpy(rng.random((2, 3), np.float32)) for k in inputs)
        found += Counter(set(kinds(exported(weft.jit.script(function), args, dynamic_axes=axes).graph)))
    assert found["Loop"] >= 9 and found["If"] >= 6


def test_sixty_models_have_branches_and_loops(rng):
    """`./dev onnx --exports` runs all of them, with ONNX Runtime too where it is installed."""
    count, start = 0, int(rng.integers(SHARE))
    for i, (_, model, args, axes) in enumerate(control_models(rng)):
        written = exported(model, args, dynamic_axes=axes)
        found = kinds(written.graph)
        count += bool(found["If"] or found["Loop"])
        if i % SHARE == start:
            agree(model, written, others(args, rng))
    assert count >= 60


@pytest.mark.parametrize("function", [
    f for f in PROGRAMS if any("Tensor" in str(p.annotation) for p in inspect.signature(f).parameters.values())
])
def test_the_programs_of_the_scripting_language(function, rng):
    args = [draw(p.annotation, rng) for p in inspect.signature(function).parameters.values()]
    try:
        function(*copied(args))
    except Exception:
        pytest.skip("plain Python raises for these arguments")
    if function.__name__ == "written_methods":
        with pytest.raises(weft.WeftError, match=r"tensors\.py:\d+: .*requires_grad"):
            exported(weft.jit.script(function), args)
        return
    expected = flat(function(*copied(args)))
    written = exported(weft.jit.script(function), args)
    feeds = [a.numpy() for a in args if isinstance(a, Tensor)]
    found = ReferenceEvaluator(written).run(None, dict(zip([i.name for i in written.graph.input], feeds, strict=True)))
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


# ---- sizes
def test_sizes_are_fixed_unless_dynamic_axes_names_them(rng):
    def flattened(x):
        return x.reshape(x.shape[0] * x.shape[1], -1) + x.shape[0]

    args = (weft.from_numpy(rng.random((2, 3, 4), np.float32)),)
    fixed = exported(flattened, args)
    assert [d.dim_value for d in fixed.graph.input[0].type.tensor_type.shape.dim] == [2, 3, 4]
    assert "Shape" not in kinds(fixed.graph)
    n = int(rng.integers(4, 9))
    open_ = exported(flattened, args, input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "n", 1: "m"}})
    assert [d.dim_param or d.dim_value for d in open_.graph.input[0].type.tensor_type.shape.dim] == ["n", "m", 4]
    agree(flattened, open_, (weft.from_numpy(rng.random((n, n + 1, 4), np.float32)),))
    with pytest.raises(weft.WeftError, match=r"should have sizes \(2, 3, 4\), has \(3, 3, 4\)"):
        weft.onnx.load(fixed)(weft.ones(3, 3, 4))


def test_loops_over_dynamic_sizes(rng):
    from tests.unit.onnx.models import Recurrent

    model = weft.jit.script(Recurrent())
    written = exported(model, (weft.randn(2, 3),), dynamic_axes={"x": {0: "time"}})
    for n in (1, int(rng.integers(3, 9))):
        agree(model, written, (weft.from_numpy(rng.uniform(-2, 2, (n, 3)).astype(np.float32)),))


def test_broadcasting_needs_no_expand():
    written = exported(lambda x, y: x * y + 1, (weft.ones(3, 1), weft.ones(4)))
    assert set(kinds(written.graph)) == {"Mul", "Add", "Identity"}


# ---- names, versions
def test_names_and_weights(rng):
    model = weft.nn.Sequential(weft.nn.Linear(3, 2), weft.nn.ReLU())
    written = exported(model, (weft.ones(2, 3),), input_names=["data"], output_names=["scores"])
    assert [i.name for i in written.graph.input] == ["data"] and [o.name for o in written.graph.output] == ["scores"]
    assert sorted(t.name for t in written.graph.initializer) == ["0.bias", "0.weight"]
    read = weft.onnx.load(written)
    assert read.input_names == ["data"] and read.output_names == ["scores"]
    assert len(list(read.parameters())) == 2 and not any(p.requires_grad for p in read.parameters())


@pytest.mark.parametrize("opset", [13, 14, 16, 17, 18, 20, onnx.defs.onnx_opset_version()])
def test_versions(opset, rng):
    def function(x):
        return F.gelu(x).mean(1), x.amax(0), x.sum(), F.pad(x, (1, 1)), *x.split(2, 1), x.var(1), F.normalize(x)

    args = (weft.from_numpy(rng.uniform(-1, 1, (3, 4)).astype(np.float32)),)
    written = exported(function, args, opset_version=opset)
    assert written.opset_import[0].version == opset
    agree(function, written, args)


# ---- refusals
def test_models_for_every_opset(rng):
    """Of all models some few for each opset, other ones in each run. What an opset lacks is refused by its name."""
    drawn = [*models(rng), *control_models(rng)]
    for opset in range(13, 19):
        for i in rng.integers(len(drawn), size=2):
            _, model, args, axes = drawn[i]
            try:
                written = exported(model, args, dynamic_axes=axes, opset_version=opset)
            except weft.support.errors.Unsupported as refused:
                assert f"the export is for opset {opset}" in str(refused)
                continue
            assert written.opset_import[0].version == opset
            # (the evaluator computes BatchNormalization of opset 9 to 13 with the input's own statistics)
            if opset > 13 or "BatchNormalization" not in kinds(written.graph):
                agree(model, written, others(args, rng))


def test_what_an_opset_does_not_have_is_written_with_what_it_has(rng):
    x = weft.from_numpy(rng.standard_normal((3, 4)).astype(np.float32))
    for opset in (13, 14):
        for function in (F.hardswish, lambda x: x.reshape(-1, 2) * x.shape[0]):
            agree(function, exported(function, (x,), dynamic_axes={"x": {0: "n"}} if function is not F.hardswish else
                                     None, opset_version=opset, input_names=["x"]), (x,))  # fmt: skip
    with pytest.raises(weft.WeftError, match="ScatterElements with reduction, which ONNX has from opset 16 on; the "):
        exported(lambda x: x.scatter_reduce(0, weft.zeros(3, 4, dtype=weft.int64), x, "sum"), (x,), opset_version=15)


def test_an_operator_without_a_symbolic_is_named_with_its_line():
    def function(x):
        y = x + 1
        return weft.linalg.eigh(y)[0]

    line = inspect.getsourcelines(function)[1] + 2
    with pytest.raises(weft.WeftError, match=rf"test_export\.py:{line}: aten::linalg_eigh .*has no symbolic"):
        exported(function, (weft.eye(2),))


def test_a_name_that_onnx_does_not_have_is_no_operator(monkeypatch):
    from weft.onnx.registry import EXPORTS

    monkeypatch.setitem(EXPORTS, "aten::lgamma", lambda g, x: g.op("Gammaln", x))
    with pytest.raises(weft.WeftError, match="Gammaln is no operator of ONNX"):
        exported(lambda x: weft.lgamma(x), (weft.ones(2),))
    monkeypatch.setitem(EXPORTS, "aten::lgamma", lambda g, x: g.op("mydomain::Gammaln", x))
    written = exported(lambda x: weft.lgamma(x) + 1, (weft.ones(2),))
    assert written.graph.node[0].domain == "mydomain" and {o.domain for o in written.opset_import} == {"", "mydomain"}


def test_a_symbolic_that_writes_something_else_is_found(monkeypatch):
    from weft.onnx.registry import EXPORTS

    monkeypatch.setitem(EXPORTS, "aten::sin", lambda g, x: g.op("Cos", x))
    with pytest.raises(weft.WeftError, match="aten::sin: its symbolic writes"):
        exported(lambda x: x.sin(), (weft.ones(2),))


class Counting(weft.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", weft.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return x + self.calls


def calls_python(x: Tensor) -> Tensor:
    return ignored(x)


@weft.jit.ignore
def ignored(x: Tensor) -> Tensor:
    return x


@pytest.mark.parametrize(("model", "text"), [
    (lambda: weft.jit.script(Counting()), "the model writes its own 'calls'"),
    (lambda: weft.jit.script(calls_python), "which is Python's"),
])
def test_what_cannot_be_written_says_why(model, text):
    with pytest.raises(weft.WeftError, match=text):
        exported(model(), (weft.ones(2),))
    assert float(Counting().calls) == 0


def test_what_draws_is_written_as_drawing(rng):
    def function(x):
        return F.dropout(x, 0.5, True), x + weft.rand(3), weft.rand_like(x), weft.bernoulli(x)

    written = exported(function, (weft.ones(2, 3) / 2,))
    assert {"Dropout", "RandomUniformLike", "Bernoulli"} <= set(kinds(written.graph))
    found = [ReferenceEvaluator(written).run(None, {"x": np.full((2, 3), 0.5, np.float32)}) for _ in range(2)]
    assert any(not np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_wrong_arguments():
    with pytest.raises(weft.WeftError, match="opset_version is 12; weft writes 13 to"):
        exported(lambda x: x, (weft.ones(2),), opset_version=12)
    with pytest.raises(weft.WeftError, match="dynamic_axes names z"):
        exported(lambda x: x, (weft.ones(2),), dynamic_axes={"z": [0]})
    with pytest.raises(weft.WeftError, match="has 1 dims, there is no axis 3"):
        exported(lambda x: x, (weft.ones(2),), dynamic_axes={"x": [3]})
    with pytest.raises(weft.WeftError, match="2 output_names for 1"):
        exported(lambda x: x, (weft.ones(2),), output_names=["a", "b"])


def test_exporting_leaves_the_model_and_the_random_numbers_alone():
    model = weft.nn.Sequential(weft.nn.BatchNorm1d(3), weft.nn.Dropout()).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = weft.get_rng_state()
    exported(model, (weft.ones(2, 3),))
    exported(lambda x: x + weft.rand(3), (weft.ones(2, 3),))
    assert all(weft.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert weft.equal(state, weft.get_rng_state())
