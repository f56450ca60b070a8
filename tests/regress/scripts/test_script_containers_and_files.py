"""Scripts: what lists and dicts of numbers take, integers of 64 bits, texts that compile again, what files keep."""

from __future__ import annotations

import inspect
import io
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft
from tests.jit_programs.test_programs import PROGRAMS, draw
from weft import Tensor, nn


def stored(program: Any) -> Any:
    file = io.BytesIO()
    weft.jit.save(program, file)
    file.seek(0)
    return weft.jit.load(file)


def compiled(body: str, parameters: str = "x") -> Any:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return weft.jit.CompilationUnit(f"def f({parameters}):\n{lines}").f


@pytest.mark.parametrize("body", [
    "d = {'a': 1}\nd['b'] = x\nreturn d", "d = {1: 1.0}\nd[2] = x\nreturn d", "d = [1]\nd[0] = x\nreturn d",
    "d = [1.0]\nd[0] = x\nreturn d", "d = [True]\nd[0] = x\nreturn d", "d = [1]\nd += [x]\nreturn d",
    "d = [1]\nd.extend([x])\nreturn d", "d = [1]\nd.append(x)\nreturn d", "d = [1, 2]\nd[0:1] = [x]\nreturn d",
    "d: List[int] = [x]\nreturn d", "d: Dict[str, float] = {'a': x}\nreturn d", "d = [1, 2]\nd[0] += x\nreturn d",
    "d = [1, 2]\nd[0], d[1] = x, 2\nreturn d", "d: List[int] = [x for i in range(2)]\nreturn d",
])  # fmt: skip
def test_a_tensor_does_not_become_a_number_in_a_container(body: str) -> None:
    with pytest.raises(weft.jit.CompileError, match=r"Tensor.*(int|float|bool)"):
        compiled(body)


def test_numbers_that_are_converted_are_stored() -> None:
    assert compiled("d = {'a': 1}\nd['b'] = int(x)\nreturn d")(weft.tensor(3)) == {"a": 1, "b": 3}
    assert compiled("d = [1.0]\nd[0] = float(x)\nreturn d")(weft.tensor(3)) == [3.0]


@pytest.mark.parametrize(("kind", "value"), [
    ("int", 2**64), ("int", 2**63), ("int", -(2**63) - 1), ("List[int]", [1, 2**64]), ("Dict[str, int]", {"a": 2**70}),
    ("Optional[int]", 2**70), ("Tuple[int, int]", (1, 2**70)), ("number", 2**70),
])  # fmt: skip
def test_integers_beyond_64_bits_are_refused(kind: str, value: Any) -> None:
    function = compiled("return a", f"a: {kind}")
    with pytest.raises(weft.WeftError, match="expected a value of type"):
        function(value)


def test_the_integers_that_64_bits_hold() -> None:
    for value in (2**63 - 1, -(2**63)):
        assert compiled("return a", "a: int")(value) == value
        assert compiled(f"return {value}", "")() == value
    for text in ("return 18446744073709551616", "return 9223372036854775808"):
        with pytest.raises(weft.jit.CompileError, match="does not fit into 64 bits"):
            compiled(text, "")


_LARGE = 2**70


class Large(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.k = 2**70

    def forward(self, x: Tensor) -> Tensor:
        return x * self.k


def test_large_integers_from_outside() -> None:
    def function(x: int):
        return x * _LARGE

    for made in (function, Large()):
        with pytest.raises(weft.jit.CompileError, match="does not fit into 64 bits"):
            weft.jit.script(made)


class Linked(NamedTuple):
    value: int
    following: Linked | None


def test_a_named_tuple_of_its_own_type_is_refused() -> None:
    def function(link: Linked):
        return link.value

    with pytest.raises(weft.jit.CompileError, match="'Linked' is a named tuple with a field of its own type"):
        weft.jit.script(function)


def test_nodes_match_their_own_schemas(rng: np.random.Generator) -> None:
    for function in [PROGRAMS[i] for i in rng.integers(len(PROGRAMS), size=25)]:
        for kind in {n.kind() for n in weft.jit.script(function).graph.nodes()}:
            for node in weft.jit.script(function).graph.findAllNodes(kind):
                assert node.schema() == "(no schema)" or node.matches(node.schema())


def test_the_code_of_a_loaded_program_compiles_again(rng: np.random.Generator) -> None:
    """But for the functions that it calls, and tensors from outside."""
    for function in [PROGRAMS[i] for i in rng.integers(len(PROGRAMS), size=25)]:
        loaded = stored(weft.jit.script(function))
        if loaded.__weft_program__.functions or "CONSTANTS" in loaded.code:
            continue
        again = weft.jit.CompilationUnit(loaded.code).get_functions()[0]
        args = [draw(p.annotation, rng) for p in inspect.signature(function).parameters.values()]
        assert _outcome(again, args) == _outcome(loaded, args), loaded.code


def _outcome(function: Any, args: list[Any]) -> str:
    weft.manual_seed(0)
    copies = weft.utils.pytree.tree_map(lambda v: v.clone() if isinstance(v, Tensor) else v, args)
    try:
        return repr(function(*copies))
    except Exception as error:
        return type(error).__name__


def _inner(x: Tensor) -> Tensor:
    return x.view(3, 5)


def _outer(x: Tensor) -> Tensor:
    y = x + 1
    return _inner(y)


def test_errors_of_loaded_programs_show_their_lines() -> None:
    for program in (stored(weft.jit.script(_outer)), stored(stored(weft.jit.script(_outer)))):
        with pytest.raises(weft.WeftError) as caught:
            program(weft.ones(4))
        lines = [line.strip() for line in str(caught.value).split("\n")]
        assert lines[2] == "return x.view(3, 5)" and lines[4] == "return _inner(y)"
    text = stored(weft.jit.CompilationUnit("def f(x):\n    return x.view(3, 5)\n").f)
    with pytest.raises(weft.WeftError, match=r"line 2\n    return x\.view\(3, 5\)"):
        text(weft.ones(4))


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.lin(x))


class Outer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.head = inner, nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x))


@pytest.mark.parametrize("how", ["script", "trace"])
def test_frozen_submodules_in_files(how: str) -> None:
    x = weft.rand(4, 3)
    frozen = weft.jit.freeze(weft.jit.script(Inner().eval()))
    outer = Outer(frozen)
    made = weft.jit.script(outer) if how == "script" else weft.jit.trace(outer, (x,))
    expected = outer(x)
    for program in (made, stored(made), stored(stored(made)), stored(weft.jit.freeze(stored(made).eval()))):
        weft.testing.assert_close(program(x), expected)
