"""`python -m weft run`: stored programs and models, in a process that has no source of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
import weft.jit
import weft.onnx
from tests.cli.command import weft_process
from weft import Tensor
from weft.cli.main import main
from weft.nn import functional as F


class Step(weft.nn.Module):
    """One step of training, with its own arithmetic of an optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = weft.nn.Linear(3, 1)
        self.rate: float = 0.1

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        loss = F.mse_loss(self.layer(x), y)
        loss.backward()
        with weft.no_grad():
            for p in [self.layer.weight, self.layer.bias]:
                gradient = p.grad
                if gradient is not None:
                    p.sub_(self.rate * gradient)
                    gradient.zero_()
        return loss.detach()


def halved(x: Tensor, n: int):
    for i in range(n):
        if x.sum() > 1:
            x = x / 2 + i
    return {"x": x, "n": x.sum()}, n


def test_a_stored_step_trains_and_a_fresh_process_compiles_nothing(tmp_path: Path, rng, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = {"x": rng.standard_normal((8, 3)).astype(np.float32), "y": rng.standard_normal((8, 1)).astype(np.float32)}
    np.savez(tmp_path / "data.npz", **data)
    step = Step()
    weft.jit.script(step).save(tmp_path / "step.weft")
    expected = [float(step(*map(weft.from_numpy, data.values()))) for _ in range(5)]
    command = ["run", "step.weft", "--input", "data.npz", "--times", "4", "--output", "o.npz"]
    assert main(command) == 0
    assert " compiled)" in capsys.readouterr().out
    np.testing.assert_allclose(np.load("o.npz")["output_0"], expected[3], rtol=1e-4)
    done = weft_process(*command, "--save", "after.weft", cwd=tmp_path)
    assert done.returncode == 0 and "found on disk" in done.stdout, done.stderr
    np.testing.assert_allclose(np.load("o.npz")["output_0"], expected[3], rtol=1e-4)
    after = weft.jit.load(tmp_path / "after.weft")
    np.testing.assert_allclose(float(after(*map(weft.from_numpy, data.values()))), expected[4], rtol=1e-4)


def test_programs_and_models(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    weft.jit.script(halved).save("halved.weft")
    np.savez("in.npz", x=np.full(3, 4, np.float32), n=3)
    assert main(["run", "halved.weft", "--input", "in.npz", "--eager"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "output_0: float32[3]", "tensor([3., 3., 3.])", "output_1: float32[]", "tensor(9.)",
        "output_2: int64[]", "tensor(3)",
    ]
    weft.onnx.export(weft.nn.ReLU(), (weft.ones(3),), "m.onnx", output_names=["y"])
    np.savez("model.npz", np.array([-1, 0, 2], np.float32))
    assert main(["run", "m.onnx", "--input", "model.npz"]) == 0
    assert capsys.readouterr().out.startswith("y: float32[3]\ntensor([0., 0., 2.])\n")


@pytest.mark.parametrize(("module", "given", "text"), [
    ("none.weft", "in.npz", "none.weft: no such file"), ("halved.weft", "none.npz", "none.npz: no such file"),
    ("in.npz", "in.npz", "in.npz: "), ("halved.weft", "halved.weft", "not an .npz file"),
    ("halved.weft", "many.npz", "many.npz has 3 arrays, the program takes 2: x, n"),
    ("halved.weft", "named.npz", "named.npz has no array 'x'"),
])
def test_mistakes_name_the_file(tmp_path: Path, monkeypatch, capsys, module, given, text):
    monkeypatch.chdir(tmp_path)
    weft.jit.script(halved).save("halved.weft")
    np.savez("in.npz", x=np.ones(3))
    np.savez("named.npz", n=np.ones(3))
    np.savez("many.npz", np.ones(1), np.ones(1), np.ones(1))
    assert main(["run", module, "--input", given]) == 2
    assert text in capsys.readouterr().err
