"""The text builder: what it folds, what it refuses, and that what it prints computes the right numbers."""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Callable

import llvmlite.binding as llvm
import ml_dtypes
import numpy
import pytest

from weft.codegen.emit import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    PTR,
    VOID,
    EmitError,
    Function,
    Module,
    Value,
    const,
    const_vector,
    iota,
    poison,
    vec,
)
from weft.codegen.emit.flow import TIGHT

LONG, DOUBLE, ADDRESS = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


@pytest.fixture
def compiled() -> Callable[..., Callable[..., object]]:
    """compile(module, name, result, *argument types) -> a Python callable; engines live as long as the test."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engines = []

    def compile(module: Module, name: str, result: object, *args: object) -> Callable[..., object]:
        parsed = llvm.parse_assembly(module.text())
        parsed.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
        engine = llvm.create_mcjit_compiler(parsed, machine)
        engine.finalize_object()
        engines.append(engine)
        return ctypes.CFUNCTYPE(result, *args)(engine.get_function_address(name))

    return compile


def unary(type: object = F32) -> tuple[Module, Function]:
    module = Module()
    return module, module.function("f", VOID, [(PTR, "x"), (PTR, "y"), (I64, "n")])


def test_vector_loop_with_masked_tail(compiled: Callable) -> None:
    lanes = random.choice((4, 8, 16))
    module, f = unary()
    x, y, n = f.params
    v = vec(F32, lanes)
    with f.loop(0, n, lanes) as loop:
        mask = f.first_lanes(f.sub(n, loop.index), lanes)
        a = f.masked_load(v, f.gep(F32, x, loop.index), mask)
        f.masked_store(f.fma(a, a, const(v, 0.5)), f.gep(F32, y, loop.index), mask)
    f.ret()
    run = compiled(module, "f", None, ADDRESS, ADDRESS, LONG)
    for size in (0, 1, lanes - 1, lanes, random.randrange(100)):
        a = numpy.random.randn(size + 3).astype(numpy.float32)
        b = numpy.full(size + 3, 7, numpy.float32)
        run(a.ctypes.data, b.ctypes.data, size)
        numpy.testing.assert_allclose(b[:size], a[:size].astype(float) ** 2 + 0.5, rtol=1e-6)
        assert (b[size:] == 7).all()


@pytest.mark.parametrize("once", [False, True])
def test_loop_results_for_any_trip_count(compiled: Callable, once: bool) -> None:
    module = Module()
    f = module.function("f", I64, [(I64, "lo"), (I64, "hi"), (I64, "step")])
    lo, hi, step = f.params
    with f.loop(
        lo, hi, step, carried=[(const(I64, 100), "sum"), (const(I64, -1), "last")], trip_at_least_one=once
    ) as loop:
        loop.next(f.add(loop.carried[0], loop.index), loop.index)
    f.ret(f.mul(f.add(loop.results[0], 1000), loop.results[1]))
    run = compiled(module, "f", LONG, LONG, LONG, LONG)
    for _ in range(20):
        low, high, by = random.randrange(-9, 9), random.randrange(-9, 9), random.randrange(1, 4)
        indices = list(range(low, high, by)) or ([low] if once else [])
        assert run(low, high, by) == (sum(indices) + 1100) * (indices[-1] if indices else -1)


def test_counters_are_hidden_but_those_of_tight_inner_loops(compiled: Callable) -> None:
    module = Module()
    f = module.function("f", I64, [(I64, "n")])
    (n,) = f.params
    zero = const(I64, 0)
    with f.loop(0, n, name="outer", carried=[(zero, "sum")]) as outer:
        with f.loop(0, outer.index, name="tight", carried=[(outer.carried[0], "sum")]) as tight:
            tight.next(f.add(tight.carried[0], tight.index))
        with f.loop(0, outer.index, name="wide", carried=[(tight.results[0], "sum")]) as wide:
            total = wide.carried[0]
            for step in range(TIGHT + 1):
                total = f.xor(f.add(total, wide.index), step)
            wide.next(total)
        outer.next(wide.results[0])
    f.ret(outer.results[0])
    hidden = {line.split()[0] for line in f.text().split("\n") if "llvm.expect" in line}
    assert hidden == {"%outer", "%wide"}
    count, expected = random.randrange(3, 9), 0
    for i in range(count):
        expected += sum(range(i))
        for j in range(i):
            for step in range(TIGHT + 1):
                expected = (expected + j) ^ step
    assert compiled(module, "f", LONG, LONG)(count) == expected


def test_loop_counts_down(compiled: Callable) -> None:
    module = Module()
    f = module.function("f", I64, [(I64, "n")])
    with f.loop(f.params[0], const(I64, 0), -2, carried=[(const(I64, 0), "s")]) as loop:
        loop.next(f.add(f.mul(loop.carried[0], 10), loop.index))
    f.ret(loop.results[0])
    assert compiled(module, "f", LONG, LONG)(7) == 7531


def test_constant_bounds_need_no_guard() -> None:
    f = Module().function("f")
    with f.loop(0, const(I64, 4)):
        pass
    f.ret()
    assert f.text().count("icmp") == 1


def test_while_loop_and_both_kinds_of_if(compiled: Callable) -> None:
    module = Module()
    f = module.function("collatz", I64, [(I64, "n")])
    with f.while_loop([(f.params[0], "n"), (const(I64, 0), "steps")]) as loop:
        n, steps = loop.carried
        loop.test(f.icmp("ne", n, 1))
        with f.if_else(f.icmp("eq", f.and_(n, 1), 0)) as parity:
            with parity.then:
                parity.give(f.ashr(n, 1))
            with parity.otherwise:
                parity.give(f.add(f.mul(n, 3), 1))
        loop.next(parity.results[0], f.add(steps, 1))
    with f.if_(f.icmp("sgt", loop.results[1], 50)):
        f.ret(const(I64, -1))
    f.ret(loop.results[1])
    run = compiled(module, "collatz", LONG, LONG)
    assert [run(n) for n in (1, 2, 6, 7, 27)] == [0, 1, 8, 16, -1]


def test_an_arm_may_return(compiled: Callable) -> None:
    module = Module()
    f = module.function("f", I64, [(I64, "n")])
    with f.if_else(f.icmp("slt", f.params[0], 0)) as arms:
        with arms.then:
            f.ret(const(I64, 0))
        with arms.otherwise:
            arms.give(f.mul(f.params[0], 2))
    f.ret(arms.results[0])
    run = compiled(module, "f", LONG, LONG)
    assert (run(-3), run(21)) == (0, 42)


def test_switch_call_and_declared_function(compiled: Callable) -> None:
    module = Module()
    double = module.function("double", F64, [(F64, "x")], internal=True)
    double.ret(double.fadd(double.params[0], double.params[0]))
    pow_ = module.declare("pow", F64, [F64, F64])
    assert module.declare("pow", F64, [F64, F64]) is pow_
    f = module.function("f", F64, [(I64, "which"), (F64, "x")])
    which, x = f.params
    one, two, rest = f.block("one"), f.block("two"), f.block("rest")
    f.switch(which, rest, [(1, one), (2, two)])
    f.place(one)
    f.ret(f.call(double.signature, [x]))
    f.place(two)
    f.ret(f.call(pow_, [x, const(F64, 2.5)]))
    f.place(rest)
    f.ret(f.call_pointer(double.pointer, F64, [const(F64, math.inf)]))
    run = compiled(module, "f", DOUBLE, LONG, DOUBLE)
    assert (run(1, 1.5), run(2, 3.0), run(9, 0.0)) == (3.0, 3.0**2.5, math.inf)


def test_shuffles_reductions_gather_and_tables(compiled: Callable) -> None:
    module, f = unary()
    x, y, _ = f.params
    v = f.load(vec(F64, 4), x)
    table = module.table("weights", F64, [1, 10, 100, 1000])
    assert module.table("weights", F64, [1, 10, 100, 1000]).text == table.text
    picked = f.gather(vec(F64, 4), f.gep(F64, table, const_vector(I64, [3, 1, 2, 0])))
    f.store(f.reduce("fadd", f.fmul(v, picked)), y)
    f.store(f.reduce("fmax", f.shufflevector(v, None, [0, 1])), f.gep(F64, y, 1))
    f.scatter(f.shufflevector(v, v, [3, 6, 1, 4]), f.gep(F64, y, f.add(iota(I64, 4), 2)))
    ints = f.fptosi(v, I64)
    f.store(f.sitofp(f.reduce("smax", ints), F64), f.gep(F64, y, 6))
    f.store(f.uitofp(f.zext(f.icmp("sgt", f.extractelement(ints, 2), 0), I64), F64), f.gep(F64, y, 7))
    f.ret()
    a, b = numpy.array([2.0, -3.0, 5.0, 7.0]), numpy.zeros(8)
    compiled(module, "f", None, ADDRESS, ADDRESS, LONG)(a.ctypes.data, b.ctypes.data, 0)
    expected = [2000 - 30 + 500 + 7, 2, 7, 5, -3, 2, 7, 1]
    numpy.testing.assert_array_equal(b, expected)


def test_atomics_allocas_and_block_copies(compiled: Callable) -> None:
    module, f = unary()
    x, y, n = f.params
    old = f.atomicrmw("add", x, n)
    f.store(f.add(f.load(I64, x), old), y)
    slot = f.alloca(I64, 2)
    f.memset(slot, 1, const(I64, 8))
    f.memcpy(f.gep(I64, y, 1), slot, const(I64, 8))
    f.ret()
    a, b = numpy.array([30]), numpy.zeros(2, numpy.int64)
    compiled(module, "f", None, ADDRESS, ADDRESS, LONG)(a.ctypes.data, b.ctypes.data, 12)
    assert a[0] == 42 and b[0] == 42 + 30 and b[1] == 0x0101010101010101


@pytest.mark.parametrize(
    "op", ["add", "sub", "mul", "and_", "or_", "xor", "sdiv", "udiv", "srem", "urem", "shl", "lshr", "ashr"]
)
def test_folding_agrees_with_the_machine(compiled: Callable, op: str) -> None:
    pairs = [
        (random.randrange(-(2**31), 2**31), random.choice((1, 2, 3, 30, random.randrange(1, 32)))) for _ in range(8)
    ]
    module = Module()
    f = module.function("f", I32, [(I32, "a"), (I32, "b")])
    f.ret(getattr(f, op)(*f.params))
    run = compiled(module, "f", ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)
    for a, b in pairs:
        folded = getattr(f, op)(const(I32, a), b)
        assert folded.const == run(a, b), (op, a, b)


def test_index_arithmetic_folds_away() -> None:
    f = Module().function("f", VOID, [(I64, "i"), (PTR, "p")])
    i, p = f.params
    zero, one = const(I64, 0), const(I64, 1)
    for same in (
        f.add(i, 0),
        f.add(zero, i),
        f.sub(i, 0),
        f.mul(i, one),
        f.mul(one, i),
        f.sdiv(i, 1),
        f.shl(i, 0),
        f.and_(i, -1),
    ):
        assert same is i
    assert f.mul(i, 0).const == 0 and f.gep(F32, p, zero) is p
    assert f.smin(const(I64, 3), 4).const == 3
    assert f.icmp("ult", const(I64, -1), 4).const == 0 and f.icmp("slt", const(I64, -1), 4).const == 1
    assert f.select(const(I1, 0), i, zero) is zero
    assert f.sext(const(I1, 1), I64).const == -1 and f.zext(const(I8, -1), I64).const == 255
    assert f.sdiv(i, 0).const is None and f.sdiv(const(I64, 1), 0).const is None
    f.ret()
    assert f.text().count("\n") == 5  # head, entry, the two divisions, ret, brace


@pytest.mark.parametrize(
    ("type", "dtype"), [(F16, numpy.float16), (BF16, ml_dtypes.bfloat16), (F32, numpy.float32), (F64, numpy.float64)]
)
def test_constants_round_once(type: object, dtype: type) -> None:
    drawn = [random.gauss(0, 1) * 10.0 ** random.randrange(-12, 12) for _ in range(200)]
    for x in [*drawn, 0.1, 1 / 3, 65519.0, 65520.0, 1e-7, 3e-41, 5e-46, 1e39, -1e39, math.inf, -0.0]:
        with numpy.errstate(over="ignore"):
            # ml_dtypes goes through float32: it must not round twice
            x = float(numpy.float32(x)) if type is BF16 else x
            expected = float(numpy.asarray(x).astype(dtype))
        got = const(type, x).const
        assert got == expected and math.copysign(1, got) == math.copysign(1, expected), x


def test_constants_reach_the_machine(compiled: Callable) -> None:
    x = random.gauss(0, 1)
    for number in (x, math.inf, -math.inf, -0.0, 1e-45, math.nan):
        module, f = unary()
        f.store(const(vec(F32, 4), number), f.params[1])
        f.store(f.extractelement(const_vector(F32, [number, 1, 2, number]), 3), f.gep(F32, f.params[1], 4))
        f.store(f.fpext(f.fadd(const(F16, -0.0), const(F16, number)), F32), f.gep(F32, f.params[1], 5))
        f.ret()
        y = numpy.zeros(6, numpy.float32)
        compiled(module, "f", None, ADDRESS, ADDRESS, LONG)(0, y.ctypes.data, 0)
        with numpy.errstate(invalid="ignore"):
            want = numpy.array([number] * 5 + [numpy.float16(number)], numpy.float32)
        numpy.testing.assert_array_equal(y, want)
        assert numpy.isnan(number) or (numpy.signbit(y) == numpy.signbit(want)).all()


def test_wrong_operands_name_both_types() -> None:
    f = Module().function("f", VOID, [(I64, "i"), (F32, "x"), (PTR, "p")])
    i, x, p = f.params
    v = f.splat(x, 8)
    refused = {
        "add: operand types differ: i64 .* float": lambda: f.add(i, x),
        "fadd: operand types differ: float .* <8 x float>": lambda: f.fadd(x, v),
        "fadd: needs floats, got i64": lambda: f.fadd(i, i),
        "mul: needs integers, got float": lambda: f.mul(x, 2),
        "trunc: cannot turn i64 .* into i64": lambda: f.trunc(i, I64),
        "sitofp: cannot turn float .* into double": lambda: f.sitofp(x, F64),
        "load: the address must be ptr, got i64": lambda: f.load(F32, i),
        "select: condition of type i64 cannot choose between values of type <8 x float>": lambda: f.select(i, v, v),
        "masked_load: a mask for <8 x float> cannot have type i64": lambda: f.masked_load(v.type, p, i),
        "gep: needs a pointer and an integer, got ptr and float": lambda: f.gep(F32, p, x),
        "br: the condition must be i1, got i64": lambda: f.cond_br(i, "a", "b"),
        "ret: the function returns void, got i64": lambda: f.ret(i),
        "insertelement: i64 is no lane of <8 x float>": lambda: f.insertelement(v, i, 0),
        "const: 0.5 is no constant of type i64": lambda: f.add(i, 0.5),
        "vec: lanes must be scalars": lambda: vec(v.type, 2),
        "shufflevector: operand types differ .*<8 x float> and <4 x float>": lambda: f.shufflevector(
            v, poison(vec(F32, 4)), [0]
        ),
        "loop: bounds and step differ in type: i64, i32": lambda: f.loop(i, const(I32, 3)).__enter__(),
    }
    for message, action in refused.items():
        with pytest.raises(EmitError, match=message):
            action()


def test_calls_are_checked() -> None:
    module = Module()
    callee = module.declare("g", F32, [F32, I64])
    f = module.function("f", VOID, [(I64, "i")])
    with pytest.raises(EmitError, match=r"call @g: takes \(float, i64\), got \(i64\)"):
        f.call(callee, [f.params[0]])
    with pytest.raises(EmitError, match="another function"):
        module.declare("g", VOID)
    with pytest.raises(EmitError, match="one of that name"):
        module.function("f")
    f.ret()
    with pytest.raises(EmitError, match="after the end of a block"):
        f.ret()


def test_open_blocks_and_unfinished_loops_are_refused() -> None:
    f = Module().function("f")
    with pytest.raises(EmitError, match="no terminator"):
        f.text()
    with pytest.raises(EmitError, match="must call next"), f.loop(0, const(I64, 9), carried=[(const(I64, 0), "s")]):
        pass


def test_names_are_kept_and_unique() -> None:
    f = Module().function("f", VOID, [(I64, "row"), (I64, "row")])
    a, b = f.params
    values = [a, b, f.add(a, b, "row"), f.add(a, b, "a b"), f.add(a, b, "a.b"), f.add(a, b, "a_b.1")]
    assert [v.text for v in values] == ["%row", "%row.1", "%row.2", "%a_b", "%a_b.1", "%a_b_1"]


def test_everything_printed_is_parsed_for_every_width() -> None:
    for lanes in (2, 4, 8, 16):
        module = Module("", "", "", 128)
        f = module.function("f", F32, [(PTR, "x", "noalias readonly"), (F32, "s")], attrs="willreturn")
        v = f.masked_load(vec(F32, lanes), f.params[0], f.first_lanes(const(I64, lanes - 1), lanes))
        w = f.intrinsic("copysign", f.bitcast(f.bitcast(v, vec(I32, lanes)), v.type), f.splat(f.params[1], lanes))
        f.prefetch(f.opaque(f.params[0]))
        f.ret(f.reduce("fadd", f.freeze(f.fneg(w)), 0.0, flags="reassoc"))
        weights = module.metadata('!{!"branch_weights", i32 1, i32 9}')
        assert weights == "!0"
        module.variable("counters", I64, 4)
        llvm.parse_assembly(module.text()).verify()
    assert isinstance(v, Value)
