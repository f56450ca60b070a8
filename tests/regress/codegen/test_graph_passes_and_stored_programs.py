"""Passes, texts and stored programs as their users meet them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
import weft.jit
from weft import Tensor
from weft.cli.main import main


def _kinds(text: str) -> list[str]:
    return [node.kind() for node in weft.jit.parse_ir(text).nodes()]


def _run(text: str, *args: Tensor) -> Tensor:
    return weft.jit.create_function_from_graph("f", weft.jit.parse_ir(text))(*args)


def _opt(path: Path, text: str, name: str, capsys) -> str:
    path.write_text(text)
    assert main(["opt", str(path), "--pass", name]) == 0
    return capsys.readouterr().out


def test_a_sum_of_products_is_one_product_of_joined_operands(tmp_path, capsys):
    count = 8
    params = ", ".join(f"%a{i}: f32[4, {3 + i}], %b{i}: f32[{3 + i}, 5]" for i in range(count))
    lines = [f"%p{i}: f32[4, 5] = aten::mm(%a{i}, %b{i})" for i in range(count)]
    lines.append("%s1: f32[4, 5] = aten::add.Tensor(%p0, %p1)")
    lines += [f"%s{i}: f32[4, 5] = aten::add.Tensor(%s{i - 1}, %p{i})" for i in range(2, count)]
    text = f"graph @f({params}) {{\n" + "\n".join(f"  {line}" for line in lines) + f"\n  return %s{count - 1}\n}}\n"
    found = _opt(tmp_path / "tree.ir", text, "batch_products", capsys)
    assert sorted(_kinds(found)) == ["aten::cat", "aten::cat", "aten::mm"]
    args = [weft.randn(*size) for i in range(count) for size in ((4, 3 + i), (3 + i, 5))]
    assert weft.allclose(_run(found, *args), _run(text, *args), atol=1e-5)
    read_twice = text.replace(f"return %s{count - 1}", f"return %s{count - 1}, %p0")
    kept = _kinds(_opt(tmp_path / "read.ir", read_twice, "batch_products", capsys))
    assert kept.count("aten::mm") == count


def test_no_dead_tuple_is_left_behind(tmp_path, capsys):
    @weft.jit.script
    def turned(x: Tensor, n: int):
        pair = (x, x + 1)
        for _ in range(n):
            pair = (pair[1], pair[0] * 2)
        return pair[0] - pair[1]

    found = _opt(tmp_path / "tuples.ir", str(turned.graph), "lower_tuples", capsys)
    assert "Tuple" not in found


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n"])
def test_a_file_without_a_graph(tmp_path, capsys, text):
    (tmp_path / "none.ir").write_text(text)
    assert main(["opt", str(tmp_path / "none.ir"), "--pass", "cse"]) != 0
    assert "there is no graph in it" in capsys.readouterr().err


def test_functions_of_a_text_call_those_behind_them():
    unit = weft.jit.CompilationUnit("def f(x):\n    return g(x) + 1\ndef g(x):\n    return x * 2\n")
    assert float(unit.f(weft.tensor(3.0))) == 7 and [f.name for f in unit.get_functions()] == ["f", "g"]

    class Defined(weft.jit.ScriptModule):
        def __init__(self) -> None:
            super().__init__()
            self.define("def forward(self, x):\n    return self.more(x) * 2\ndef more(self, x):\n    return x + 1\n")

    assert float(Defined()(weft.tensor(3.0))) == 8


def test_numbers_for_a_stored_program_come_from_arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    @weft.jit.script
    def scaled(x: Tensor, n: int, by: float):
        for _ in range(n):
            x = x * by
        return x

    scaled.save("scaled.weft")
    np.savez("in.npz", x=np.ones(2, np.float32), n=np.array(3), by=np.array(0.5))
    assert main(["run", "scaled.weft", "--input", "in.npz", "--output", "out.npz"]) == 0
    np.testing.assert_allclose(np.load("out.npz")["output_0"], [0.125, 0.125])
