"""Models that are read: compiled, differentiated and trained like any other Module; refusals of files and inputs."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft
import weft.jit
import weft.onnx
from tests.unit.onnx.models import SCRIPTED
from tests.unit.onnx.test_export import copied, exported, flat
from weft import Tensor

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def model_of(nodes, inputs, outputs, opset=18, constants=(), **options):
    """A model of nodes on tensors of any sizes: names with the number of dims."""
    infos = [
        [helper.make_tensor_value_info(n, t, [None] * r) for n, t, r in part] for part in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *infos, [numpy_helper.from_array(a, n) for n, a in constants])
    domains = {n.domain for n in nodes} - {""}
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, **options)


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


@pytest.mark.parametrize(("function", "kinds", "axes"), SCRIPTED)
def test_branches_and_loops_compile(function, kinds, axes, rng):
    args = tuple(3 if k == "n" else weft.from_numpy(rng.uniform(-2, 2, (2, 3)).astype(np.float32)) for k in kinds)
    model = weft.onnx.load(exported(weft.jit.script(function), args, dynamic_axes=axes))
    compiled = weft.compile(model)
    weft.counters.reset()
    for _ in range(2):
        tensors = [a for a in args if isinstance(a, Tensor)]
        for a, b in zip(flat(model(*tensors)), flat(compiled(*tensors)), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
        args = tuple(a * 0.5 + 0.25 if isinstance(a, Tensor) else a for a in args)
    assert weft.counters.captures == 1 and weft.counters.native_calls == 2


def test_one_program_for_every_size(rng):
    model = weft.onnx.load(model_of(
        [node("Shape", "x", "s"), node("Gather", "s zero", "n", axis=0), node("Mul", "n two", "m"),
         node("Concat", "m rest", "t", axis=0), node("Reshape", "x t", "y")],
        [("x", F32, 2)], [("y", F32, 2)],
        constants=[("zero", np.array([0])), ("two", np.array([2])), ("rest", np.array([-1]))],
    ))
    compiled = weft.compile(model)
    weft.counters.reset()
    for n in rng.integers(2, 30, 4):
        x = weft.from_numpy(rng.random((int(n), 6), np.float32))
        assert compiled(x).shape == (2 * n, 3) and weft.equal(compiled(x), x.reshape(-1, 3))
    assert weft.counters.captures == 1


def test_gradients_flow_and_weights_train(rng):
    source = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.Tanh(), weft.nn.Linear(4, 1))
    x = weft.from_numpy(rng.standard_normal((5, 3)).astype(np.float32))
    model = weft.onnx.load(exported(source, (x,)))
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    (model(mine) ** 2).sum().backward()
    (source(theirs) ** 2).sum().backward()
    np.testing.assert_allclose(mine.grad.numpy(), theirs.grad.numpy(), rtol=1e-5)
    assert all(p.grad is None for p in model.parameters())
    model.requires_grad_()
    optimizer = weft.optim.SGD(model.parameters(), lr=0.05)

    @weft.compile
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    losses = [float(step(x)) for _ in range(20)]
    assert losses[-1] < losses[0] / 2


def test_a_function_of_the_model_is_called_with_its_attributes():
    function = helper.make_function(
        "mine", "Scaled", ["a"], ["b"],
        [helper.make_node("Constant", [], ["k"]), node("Mul", "a k", "b")], [helper.make_opsetid("", 18)], ["factor"],
    )
    reference = onnx.AttributeProto()
    reference.name, reference.ref_attr_name, reference.type = "value_float", "factor", onnx.AttributeProto.FLOAT
    function.node[0].attribute.append(reference)
    model = model_of([node("Scaled", "x", "y", domain="mine", factor=3.0)], [("x", F32, 1)], [("y", F32, 1)],
                     functions=[function])
    assert weft.onnx.load(model)(weft.ones(2)).tolist() == [3, 3]


@pytest.mark.parametrize(("opset", "made", "expected"), [
    (6, node("Clip", "x", "y", min=0.0, max=1.0), [[0, 1], [1, 1]]),
    (9, node("Slice", "x", "y", starts=[1], ends=[2], axes=[0]), [[2, 3]]),
    (11, node("Unsqueeze", "x", "y", axes=[0]), [[[-1, 1], [2, 3]]]),
    (11, node("ReduceSum", "x", "y", axes=[1], keepdims=0), [0, 5]),
    (11, node("Softmax", "x", "y", axis=0), None), (9, node("Flatten", "x", "y", axis=0), [[-1, 1, 2, 3]]),
    (2, node("Pad", "x", "y", pads=[0, 1, 0, 0], value=5.0), [[5, -1, 1], [5, 2, 3]]),
])
def test_older_versions(opset, made, expected):
    model = weft.onnx.load(model_of([made], [("x", F32, 2)], [("y", F32, 2)], opset))
    found = model(weft.tensor([[-1.0, 1.0], [2.0, 3.0]]))
    if expected is None:
        whole = np.exp([-1.0, 1.0, 2.0, 3.0])
        np.testing.assert_allclose(found.numpy().reshape(-1), whole / whole.sum(), rtol=1e-5)
    else:
        assert found.tolist() == expected


# ---- refusals
def test_operators_that_weft_cannot_express_are_all_named():
    nodes = [node("ImageDecoder", "x", "a"), node("Fft", "a", "y", domain="far")]
    model = model_of(nodes, [("x", F32, 1)], [("y", F32, 1)])
    with pytest.raises(weft.WeftError, match=r"weft cannot express ImageDecoder, far::Fft"):
        weft.onnx.load(model)


def test_damaged_files(tmp_path, rng):
    file = tmp_path / "m.onnx"
    weft.onnx.export(weft.nn.Linear(3, 2), (weft.ones(1, 3),), file)
    whole = file.read_bytes()
    for text in (b"", b"hello", bytes(rng.integers(0, 256, 200, np.uint8)), whole[: len(whole) // 2]):
        file.write_bytes(text)
        with pytest.raises(weft.WeftError, match="onnx: "):
            weft.onnx.load(file)(weft.ones(1, 3))
    with pytest.raises(FileNotFoundError):
        weft.onnx.load(tmp_path / "none.onnx")


def test_wrong_inputs():
    model = weft.onnx.load(exported(lambda x, y: x + y, (weft.ones(2), weft.ones(2)), input_names=["a", "b"]))
    assert model(b=weft.ones(2), a=weft.ones(2)).tolist() == [2, 2]
    for args, text in (
        ((weft.ones(2),), "takes 2 inputs \\(a, b\\), 1 are given"),
        ((weft.ones(2), weft.ones(3)), "input 'b' should have sizes \\(2\\), has \\(3,\\)"),
        ((weft.ones(2), weft.ones(2).double()), "input 'b' should be .*float32, is .*float64"),
    ):
        with pytest.raises(weft.WeftError, match=text):
            model(*args)


def test_an_error_names_the_node():
    model = weft.onnx.load(model_of([node("MatMul", "x x", "y", name="product")], [("x", F32, 2)], [("y", F32, 2)]))
    with pytest.raises(weft.WeftError, match="onnx node MatMul 'product'"):
        model(weft.ones(2, 3))


def test_without_the_package_one_error_says_what_to_install():
    code = "import sys; sys.modules['onnx'] = None\nimport weft, weft.onnx\n"
    code += "assert not weft.onnx.is_in_onnx_export()  # what programs ask without it\nweft.onnx.load('model.onnx')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith("pip install 'weft[onnx]'")


def test_importing_weft_does_not_load_it():
    code = "import weft, sys; assert not {m for m in sys.modules if m.split('.')[0] == 'onnx' or m == 'weft.onnx'}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_copies_of_arguments_are_the_only_ones_that_are_written():
    x = weft.tensor([[1.0, -2.0, 0.5]])
    function = next(f for f, *_ in SCRIPTED if f.__name__ == "branch_in_place")
    exported(weft.jit.script(function), copied((x,)))
    assert x.tolist() == [[1.0, -2.0, 0.5]]
