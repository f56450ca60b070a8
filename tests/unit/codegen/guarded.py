"""Arrays between pages that nobody may touch, and native programs over them: a read or write beyond a buffer's end
(or before its start) ends the process.

`python -m tests.unit.codegen.guarded SEED PROGRAMS OPERATORS SIZES` runs as many of each so (SIZES: programs all of
whose sizes are symbols). The frame's
own arrays are guarded too: what programs make for results, buffers of late size, and each slot of the arena, which are
laid apart for this.
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import sys
import weakref
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
PAGE, _SHUT, _OPEN = mmap.PAGESIZE, 0, mmap.PROT_READ | mmap.PROT_WRITE
at_end = True  # where arrays lie: against the page behind them, or against the page before


def empty(shape: Any, dtype: Any = np.float64) -> Array:
    """numpy.empty between guards, filled with bytes that are NaN as floats."""
    dtype = np.dtype(dtype)
    dims = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(n) for n in shape)
    size = int(np.prod(dims, dtype=np.int64)) * dtype.itemsize
    inside = -(-size // PAGE) * PAGE
    start = _libc.mmap(None, inside + 2 * PAGE, _OPEN, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert start not in (None, ctypes.c_size_t(-1).value)
    for guard in (start, start + PAGE + inside):
        assert _libc.mprotect(guard, PAGE, _SHUT) == 0
    first = start + PAGE + (inside - size if at_end else 0)
    memory = (ctypes.c_byte * size).from_address(first)
    weakref.finalize(memory, _libc.munmap, start, inside + 2 * PAGE)
    whole = np.frombuffer(memory, np.uint8) if size else np.ndarray((0,), np.uint8, memory)
    whole.fill(0xFF)
    return whole.view(dtype).reshape(dims) if size else np.ndarray(dims, dtype, memory)


def guarded(values: Array) -> Array:
    """A row-major copy between guards."""
    made = empty(values.shape, values.dtype)
    made[...] = values
    return made


class _Numpy:
    """numpy with that `empty`."""

    empty = staticmethod(empty)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


# by a layout's id: the layout, the first word of its slots' offsets, how many there are
_places: dict[int, tuple[Any, int, int]] = {}


def install() -> None:
    """Make weft's runtime take its memory from here. The arena's slots get a page between each other,
    and lie against its start or end."""
    import weft.codegen.program.functions as emission
    from weft.plan.sizes import Operation
    from weft.runtime import program
    from weft.runtime.frame import Frame
    from weft.runtime.segments import ARENA, TOTAL

    latest = (0, 0)

    def spread(table: Any, word: int, sizes: Any) -> None:
        nonlocal latest
        latest = (word, len(sizes))
        offset = table.word(PAGE)
        for i, size in enumerate(sizes):
            wide = table.word(size)
            room, inside = whole(table, wide, PAGE), whole(table, wide, 64)  # slots start at 64 bytes
            gap = table.step(Operation.ADD, room, table.step(Operation.MUL, inside, table.word(-1)))
            table.step(Operation.ADD, offset, gap if at_end else table.word(0), word + i)
            offset = table.step(Operation.ADD, offset, table.step(Operation.ADD, room, table.word(PAGE)))
        table.step(Operation.ADD, offset, table.word(0), TOTAL)

    def whole(table: Any, size: int, unit: int) -> int:
        """A size rounded up to a multiple."""
        units = table.step(Operation.FLOORDIV, table.step(Operation.ADD, size, table.word(unit - 1)), table.word(unit))
        return int(table.step(Operation.MUL, units, table.word(unit)))

    def reserve(frame: Any) -> None:
        size = frame.words[TOTAL]
        if not size:
            return
        arena = frame.arena
        if size > arena.size:
            arena.memory, arena.size = empty((size,), np.uint8), size
            arena.address = arena.memory.__array_interface__["data"][0]
            frame.words[ARENA] = arena.address
        _, word, count = _places[id(frame.layout)]
        assert arena.address % PAGE == 0 and _libc.mprotect(arena.address, arena.size, _OPEN) == 0
        for i in range(count):
            _libc.mprotect(arena.address + frame.words[word + i] // PAGE * PAGE - PAGE, PAGE, _SHUT)

    make = program.Program.__init__

    def made(self: Any, layout: Any, *args: Any, **rest: Any) -> None:
        _places.setdefault(id(layout), (layout, *latest))  # (programs of one text share it)
        make(self, layout, *args, **rest)

    program.np = _Numpy()  # type: ignore[assignment]
    program.Program.__init__ = made  # type: ignore[method-assign]
    assert hasattr(emission, "put_offsets")
    emission.put_offsets = spread
    Frame.reserve = reserve  # type: ignore[method-assign]


def run_programs(rng: np.random.Generator, count: int) -> None:
    """Programs of tests/agree, at small and large sizes."""
    import weft
    from tests.agree.generate import draw_program
    from tests.agree.running import draw_call, draw_calls, draw_state, make_function

    for _ in range(count):
        _change_side(rng)
        drawn = draw_program(
            int(rng.integers(2**31)), bool(rng.random() < 0.4), int(rng.integers(3, 14)),
            str(rng.choice(["float64", "float32"])),
        )
        print(f"seed {drawn.seed}, {drawn.dtype}, state {drawn.state}\n{drawn.source('weft')}", flush=True)
        state = {n: weft.from_numpy(guarded(x)).requires_grad_(n.startswith("w")) for n, x in draw_state(drawn).items()}
        function = weft.compile(make_function(drawn, "weft", {"weft": weft, **state}), backend="llvm")
        sizes = [*draw_calls(drawn, 2), {"a": int(rng.integers(1, 300)), "b": int(rng.integers(1, 70))}]
        for i, size in enumerate(sizes):
            print("call", size, flush=True)
            try:
                function(*[weft.from_numpy(guarded(x)) for x in draw_call(drawn, size, i).values])
            except (weft.WeftError, RuntimeError) as problem:
                print(f"refused: {problem}", flush=True)


def run_operators(rng: np.random.Generator, count: int) -> None:
    """Single operators on their samples, in dtypes drawn for each; what the interpreter says too, to 1e-3."""
    from tests.ops.sampling import NoSample, cases, cast, mine
    from weft.ir.builder import Builder
    from weft.ir.evaluate import interpret
    from weft.programs.executable import make_executable
    from weft.support.errors import WeftError
    from weft.types import dtype as dt
    from weft.types.tensor_type import tensor_type

    known = [op for op in mine() if op.effect != "random"]
    for op in rng.permutation(np.array(known, object))[:count]:
        _change_side(rng)
        try:
            drawn = list(cases(op, rng))
        except NoSample:
            continue
        for args in drawn:
            dtype = dt.ALL[int(rng.integers(len(dt.ALL)))] if rng.random() < 0.6 else dt.float32
            operands = [cast(v, dtype, rng) for v in args]
            print(op.name, dtype, [v.shape if isinstance(v, np.ndarray) else v for v in operands], flush=True)
            builder, inputs, symbols = Builder("f"), [], {}
            try:
                graph = builder.graph(results_of(builder, op, operands, inputs, symbols, tensor_type))
            except (WeftError, TypeError, ValueError, AttributeError, AssertionError) as problem:
                print(f"refused: {problem}", flush=True)
                continue
            try:
                expected = interpret(graph, inputs, symbols)
            except (WeftError, ValueError, TypeError, IndexError) as problem:
                print(f"refused: {problem}", flush=True)
                continue
            found = make_executable(graph, "llvm").run([guarded(x) for x in inputs], symbols)
            for v, w in zip(found, expected, strict=True):
                _compare(op.name, np.asarray(v), np.asarray(w))


def results_of(
    builder: Any, op: Any, operands: list[Any], inputs: list[Array], symbols: dict[str, int], tensor_type: Any
) -> list[Any]:
    """What a call of an operator gives, in a graph whose parameters, and the symbols of their sizes, are added to
    `inputs` and `symbols`."""
    from weft.types import dtype as dt

    def operand(v: Any) -> Any:
        if isinstance(v, (tuple, list)):
            return tuple(operand(x) for x in v)
        if not isinstance(v, np.ndarray):
            return v
        inputs.append(v)
        dims = []
        for n in v.shape:
            dims.append(n if n == 1 else builder.env.fresh("s", n))
            symbols.update({str(dims[-1]): n} if n != 1 else {})
        return builder.handle(builder.param(tensor_type(dt.from_numpy(v.dtype), tuple(dims)), f"x{len(inputs)}"))

    args = tuple(operand(v) for v in operands)
    with builder.active():
        out = builder.call(op, args)
    return [builder.operand(r) for r in (out if isinstance(out, tuple) else (out,))]


def _compare(name: str, found: Array, expected: Array) -> None:
    assert (
        found.shape == expected.shape and found.dtype == expected.dtype
    ), (name, found.dtype, found.shape, expected.dtype, expected.shape)
    if found.dtype.kind not in "fc" and found.dtype.itemsize > 2:
        assert np.array_equal(found, expected), (name, found, expected)
        return
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    v, w = found.astype(wide), expected.astype(wide)
    loose = {2: 2e-2, 1: 0}.get(found.dtype.itemsize, 1e-3)
    assert np.allclose(v, w, rtol=loose, atol=loose, equal_nan=True), (name, found, expected)


def run_sizes(rng: np.random.Generator, count: int) -> None:
    """Programs of tests/agree/size_programs.py, at all sizes that their guards admit."""
    from tests.agree.draw_sizes import draw
    from tests.agree.test_sizes import outcome

    for _ in range(count):
        _change_side(rng)
        program = draw(int(rng.integers(2**31)))
        print(f"sizes, seed {program.seed}\n{program}", flush=True)
        problem = outcome(program, guarded)
        assert problem is None, problem


def _change_side(rng: np.random.Generator) -> None:
    global at_end
    at_end = bool(rng.random() < 0.7)


def main(seed: int, programs: int, operators: int, sizes: int) -> None:
    """Run as many of each."""
    import weft  # noqa: F401  (defines the operators)

    faulthandler.enable()
    install()
    rng = np.random.default_rng(seed)
    run_programs(rng, programs)
    run_operators(rng, operators)
    run_sizes(rng, sizes)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]))
