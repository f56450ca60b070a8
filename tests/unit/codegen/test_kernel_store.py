"""Kernels of earlier programs are taken over: not compiled again, and the same numbers."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from typing import Any

import pytest

import weft
import weft.codegen.compilation as compilation
from weft.codegen.compilation import Compilation, Part
from weft.codegen.emit import F64, I64, PTR, Module, const
from weft.codegen.kernel_store import KernelObject, KernelStore, digest_of, store
from weft.codegen.target import host_target
from weft.runtime.engine import load


@pytest.fixture
def defined(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The functions that LLVM was given, one line each."""
    lines: list[str] = []
    plain = Part.__init__

    def noting(self: Part, text: str, *rest: Any) -> None:
        lines.extend(line for line in text.split("\n") if line.startswith("define ") and " internal " not in line)
        plain(self, text, *rest)

    monkeypatch.setattr(Part, "__init__", noting)
    yield lines


def kernel(module: Module, name: str, value: float) -> None:
    """Gives a number out of a table, twice it, plus a value."""
    if "twice" not in module.functions:
        helper = module.function("twice", F64, [(F64, "x")], internal=True)
        helper.ret(helper.fadd(helper.params[0], helper.params[0]))
    f = module.function(name, F64, [(I64, "at")])
    table = module.table("numbers", F64, [value, value + 0.5])
    total = f.call(module.functions["twice"].signature, [f.load(F64, f.gep(F64, table, f.params[0]))])
    f.ret(f.fadd(total, const(F64, value)))
    module.finished(f)


def program(values: list[float], kept: KernelStore | None, threads: int = 2) -> tuple[list[float], int]:
    """What kernels of these values give, called through a table of their addresses; and how many objects there are."""
    target = host_target()
    module = Module.for_target(target)
    with Compilation(module, target, threads, kept) as work:
        for number, value in enumerate(values):
            kernel(module, f"k{number}", value)
        f = module.function("main", F64, [(I64, "which"), (I64, "at")])
        functions = module.addresses("functions", [module.functions[f"k{n}"].signature for n in range(len(values))])
        f.ret(f.call_pointer(f.load(PTR, f.gep(PTR, functions, f.params[0]), align=8), F64, [f.params[1]]))
        objects = work.objects()
    library = load(objects, ["main"])
    call = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_int64)(library["main"])
    return [call(which, at) for which in range(len(values)) for at in (0, 1)], len(objects)


def expected(values: list[float]) -> list[float]:
    return [2 * (value + at / 2) + value for value in values for at in (0, 1)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch", [1, 10**6])
def test_programs_share_kernels_in_any_order_and_number(
    defined: list[str], monkeypatch: pytest.MonkeyPatch, threads: int, batch: int
) -> None:
    monkeypatch.setattr(compilation, "BATCH", batch)
    kept, met = KernelStore(), set[float]()
    for _ in range(6):
        values = [float(random.randrange(6)) for _ in range(random.randrange(1, 8))]
        defined.clear()
        assert program(values, kept, threads)[0] == expected(values)
        new = set(values) - met
        met |= new
        compiled = [line for line in defined if "@main" not in line]
        assert len(compiled) <= len(set(values)) and len(compiled) >= len(new)
        if batch == 1 and threads == 2:  # each is an object of its own, and no neighbour is in the way
            assert len(compiled) == len(new)


def test_a_program_that_comes_again_compiles_no_kernel(defined: list[str]) -> None:
    kept, values = KernelStore(), [1.0, 2.0, 1.0]
    program(values, kept)
    defined.clear()
    assert program(values[::-1], kept)[0] == expected(values[::-1])
    assert [line for line in defined if "@main" not in line] == []


def test_one_of_two_equal_kernels_is_let_go_of() -> None:
    target, kept = host_target(), KernelStore()
    for gone in ("k0", "k1"):
        module = Module.for_target(target)
        with Compilation(module, target, 2, kept) as work:
            kernel(module, "k0", 1.0)
            kernel(module, "k1", 1.0)
            f = module.function("main", F64, [(I64, "at")])
            f.ret(f.call(module.functions["k1" if gone == "k0" else "k0"].signature, [f.params[0]]))
            module.keep(["main"])
            assert gone not in module.functions
            objects = work.objects()
        kept.clear()
        library = load(objects, ["main"])
        assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(library["main"])(1) == expected([1.0])[1]


def test_neighbours_that_are_there_already_are_not_there_twice() -> None:
    kept = KernelStore()
    program([1.0, 2.0], kept)
    target = host_target()
    module = Module.for_target(target)
    kernel(module, "k0", 2.0)
    digest = digest_of(module.functions["k0"])
    assert digest is not None
    neighbour = kept.find(digest)
    assert neighbour is not None and len(neighbour.symbols) == 2
    late = KernelStore()  # in which the object appears when one of its kernels has been written anew
    plain, asked = late.find, []

    def find(digest: str) -> KernelObject | None:
        asked.append(digest)
        if len(asked) == 2:
            late.add(neighbour)
        return plain(digest)

    late.find = find  # type: ignore[method-assign]
    assert program([1.0, 2.0], late)[0] == expected([1.0, 2.0])
    assert len(asked) == 2


def test_a_kernel_that_refers_to_others_is_compiled_with_its_program() -> None:
    module = Module.for_target(host_target())
    kernel(module, "k0", 1.0)
    f = module.function("calls", F64, [(I64, "at")])
    f.ret(f.call(module.functions["k0"].signature, [f.params[0]]))
    g = module.function("writes", F64, [(I64, "at")])
    g.ret(g.load(F64, module.variable("room", F64)))
    assert digest_of(f) is None and digest_of(g) is None and digest_of(module.functions["k0"]) is not None


def test_the_name_goes_by_what_is_computed() -> None:
    one, other = Module.for_target(host_target()), Module.for_target(host_target())
    kernel(one, "k0", 1.0)
    kernel(other, "k0", 2.0)
    kernel(other, "k1", 1.0)
    digests = [digest_of(one.functions["k0"]), digest_of(other.functions["k0"]), digest_of(other.functions["k1"])]
    assert digests[0] != digests[1]
    assert digests[0] == digests[2] and "numbers.1" in other.text()  # (what a table is called does not matter)


def test_the_oldest_go_when_there_are_too_many_bytes() -> None:
    kept = KernelStore(limit=25)
    objects = [KernelObject({f"d{i}": f"k{i}", f"e{i}": f"l{i}"}, b"0123456789") for i in range(4)]
    kept.add(objects[0])
    kept.add(objects[1])
    assert kept.find("d0") is objects[0]
    kept.add(objects[2])
    assert kept.find("e1") is None and kept.find("e0") is objects[0] and kept.find("d2") is objects[2]
    kept.add(KernelObject({"d0": "other", "f": "f"}, b""))
    assert kept.find("d0") is objects[0] and kept.find("f") is None
    kept.clear()
    assert kept.find("d0") is None


def test_a_function_recorded_again_compiles_what_is_new(defined: list[str]) -> None:
    store.clear()
    x = weft.randn(3, 5)

    def first(x: weft.Tensor) -> weft.Tensor:
        return (x.sin() * 2 + x.cos()).sum(1)

    def second(x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        return (x.sin() * 2 + x.cos()).sum(1), (x.exp() - 1).sum(0)

    def digests() -> set[str]:
        """Of the kernels that were compiled since it was asked."""
        names = [line.split("@")[1].split("(")[0] for line in defined if "@weft_" not in line]
        defined.clear()
        return {name.rpartition("_")[2] for name in names}

    a = weft.compile(first)(x)
    before = digests()
    b, c = weft.compile(second)(x)
    new = digests()
    assert before and new and before.isdisjoint(new)
    assert (a == b).all() and weft.allclose(c, (x.exp() - 1).sum(0))
