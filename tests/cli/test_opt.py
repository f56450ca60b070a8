"""`python -m weft opt`: passes on text."""

from __future__ import annotations

from weft.cli.main import main

CALLING = """graph @top(%x: Tensor) {
  %y: Tensor = prim::CallFunction("twice", args=[%x], type="Tensor")
  return %y
}
graph @twice(%x: Tensor) {
  %y: Tensor = aten::mul.Tensor(%x, 2)
  return %y
}
"""


def ran(tmp_path, capsys, text, *passes):
    file = tmp_path / "g.ir"
    file.write_text(text)
    code = main(["opt", str(file), *(word for p in passes for word in ("--pass", p))])
    return code, capsys.readouterr()


def test_passes_run_in_order(tmp_path, capsys) -> None:
    code, said = ran(tmp_path, capsys, CALLING, "inline", "cse", "dce")
    assert code == 0 and "aten::mul.Tensor(%x, other=2)" in said.out and "CallFunction" not in said.out


def test_torchscripts_notation_is_read(tmp_path, capsys) -> None:
    text = "graph(%x : Tensor):\n  %2 : int = prim::Constant[value=2]()\n  %3 : int = prim::add(%2, %2)\n  return (%3)"
    code, said = ran(tmp_path, capsys, text, "constant_propagation")
    assert code == 0 and "return 4" in said.out


def test_mistakes(tmp_path, capsys) -> None:
    code, said = ran(tmp_path, capsys, CALLING, "cze")
    assert code == 2 and "there is no pass 'cze'" in said.err and "cse" in said.err
    code, said = ran(tmp_path, capsys, CALLING.replace("prim::CallFunction", "aten::unheard"), "cse")
    assert code == 2 and "line 2" in said.err
    code, said = ran(tmp_path, capsys, CALLING.replace("aten::mul.", "aten::mul_."), "inline", "simplify_views")
    assert code == 2 and "which writes in place" in said.err
    code, said = ran(tmp_path, capsys, CALLING.replace('"twice"', '"top"'), "inline")
    assert code == 2 and "is not among the graphs" in said.err
