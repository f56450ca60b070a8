"""The functions of the matrix product (prototypes.py has their contract), written on its kernels: one library for each
dtype and target, compiled once.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.emit import I8, I64, VOID, Function, Module, Signature, Value, const
from weft.codegen.target import Target

from .driver import (
    AHEAD,
    COLLIDING_BYTES,
    IN_PLACE,
    IN_PLACE_COLLIDING,
    IN_PLACE_ROWS,
    PACKED,
    Driver,
    equal_steps,
    pack_panels,
)
from .kernel import Epilogue, store_tile
from .prototypes import PARAMETERS, GemmLibrary, gemm_symbol
from .small import FEW_ROWS, emit_dots, emit_wide
from .tiles import GemmPlan, plan_gemm


def emit_gemm(module: Module, dtype: str, target: Target, epilogue: Epilogue = store_tile) -> GemmLibrary:
    """The whole library. `epilogue` writes each finished register tile of the big kernels (see kernel.Tile)."""
    return _Entries(module, plan_gemm(dtype, target), epilogue).library


def gemm_module(dtype: str, target: Target) -> Module:
    """A module with nothing but the library."""
    module = Module.for_target(target)
    emit_gemm(module, dtype, target)
    return module


class _Entries:
    """Writes the exported functions over a driver."""

    def __init__(self, module: Module, plan: GemmPlan, epilogue: Epilogue) -> None:
        self.module, self.plan, self.size = module, plan, plan.elem.bytes
        self.driver = Driver(module, plan, epilogue)
        self.wide = [emit_wide(module, plan, rows) for rows in range(1, FEW_ROWS + 1)]
        self.dots = [emit_dots(module, plan, rows) for rows in range(1, FEW_ROWS + 1)]
        self.library = GemmLibrary(self._gemm(), self._pack_b(), self._packed())

    def _begin(self, entry: str) -> tuple[Function, dict[str, Value]]:
        params = PARAMETERS[entry]
        f = self.module.function(gemm_symbol(entry, self.plan), VOID, params)
        return f, {name: value for (_, name), value in zip(params, f.params, strict=True)}

    def _in_bytes(self, f: Function, arg: dict[str, Value], *names: str) -> None:
        for name in names:
            arg[name] = f.mul(arg[name], self.size, name)

    def _gemm(self) -> Signature:
        f, arg = self._begin("gemm")
        self._in_bytes(f, arg, "rsA", "csA", "rsB", "csB", "rsC")
        arg["adds"] = f.icmp("ne", arg["accumulate"], 0, "adds")
        self._take_range(f, arg)
        arg["B"] = f.gep(I8, arg["B"], f.mul(arg["n0"], arg["csB"]))
        self._small_cases(f, arg)
        # rows of B that share few sets of the first-level cache push one another out before they are read again
        collides = f.icmp("eq", f.and_(arg["rsB"], COLLIDING_BYTES - 1), 0)
        most = f.select(collides, const(I64, IN_PLACE_COLLIDING), const(I64, IN_PLACE_ROWS))
        in_place = f.and_(f.icmp("eq", arg["csB"], self.size), f.icmp("sle", arg["rows"], most))
        mode = f.select(in_place, const(I64, IN_PLACE), const(I64, PACKED), "mode")
        self._call_driver(f, arg, arg["B"], mode)
        f.ret()
        return f.signature

    def _take_range(self, f: Function, arg: dict[str, Value]) -> None:
        """Return if the range is empty; `rows`, `columns` and C are those of the range from here on."""
        arg["rows"], arg["columns"] = f.sub(arg["m1"], arg["m0"], "rows"), f.sub(arg["n1"], arg["n0"], "columns")
        with f.if_(f.icmp("sle", f.smin(arg["rows"], arg["columns"]), 0), "nothing"):
            f.ret()
        arg["C"] = f.gep(self.plan.elem, arg["C"], arg["n0"])

    def _call_driver(self, f: Function, arg: dict[str, Value], b: Value, mode: Value) -> None:
        arguments = {**arg, "B": b, "mode": mode, "N": arg["columns"]}
        f.call(self.driver.signature, [arguments[name] for name in Driver.NAMES])

    def _small_cases(self, f: Function, arg: dict[str, Value]) -> None:
        size = self.size
        is_column = f.icmp("eq", arg["N"], 1)
        is_thin = f.icmp("sle", arg["M"], FEW_ROWS)
        along_k = f.and_(f.icmp("eq", arg["csA"], size), f.icmp("eq", arg["rsB"], size))
        a = self._row(f, arg["A"], arg["m0"], arg["rsA"])
        c = self._row(f, arg["C"], arg["m0"], arg["rsC"])
        with f.if_(f.and_(is_column, along_k), "matrix_vector"):
            self._dot_rows(f, arg, a, c)
            f.ret()
        contiguous = f.and_(f.icmp("eq", arg["rsA"], size), f.icmp("eq", arg["rsC"], size))
        with f.if_(
            f.and_(is_column, contiguous), "vector_matrix"
        ):  # the transposed product: one row, B is A transposed
            turned = [
                arg["B"],
                arg["rsB"],
                arg["rsB"],
                a,
                arg["csA"],
                c,
                arg["rsC"],
                arg["rows"],
                arg["K"],
                arg["adds"],
            ]
            f.call(self.wide[0], turned)
            f.ret()
        with f.if_(f.and_(is_thin, f.icmp("eq", arg["csB"], size)), "thin"):
            operands = [a, arg["rsA"], arg["csA"], arg["B"], arg["rsB"], c, arg["rsC"]]
            rest = [*operands, arg["columns"], arg["K"], arg["adds"]]
            self._by_height(f, self.wide, arg["rows"], rest)
            f.ret()
        with f.if_(f.and_(is_thin, along_k), "thin_dots"):
            self._by_height(f, self.dots, arg["rows"], self._dot_arguments(arg, a, c))
            f.ret()

    @staticmethod
    def _dot_arguments(arg: dict[str, Value], a: Value, c: Value) -> list[Value]:
        return [a, arg["rsA"], arg["B"], arg["csB"], c, arg["rsC"], arg["columns"], arg["K"], arg["adds"]]

    def _dot_rows(self, f: Function, arg: dict[str, Value], a: Value, c: Value) -> None:
        """Rows four at a time, then one at a time: an element's sum does not hang on its neighbours."""
        whole = f.and_(arg["rows"], -FEW_ROWS)
        for low, high, height in ((const(I64, 0), whole, FEW_ROWS), (whole, arg["rows"], 1)):
            with f.loop(low, high, height, "row") as loop:
                at = self._row(f, a, loop.index, arg["rsA"]), self._row(f, c, loop.index, arg["rsC"])
                f.call(self.dots[height - 1], self._dot_arguments(arg, *at))

    @staticmethod
    def _row(f: Function, base: Value, row: Value, stride: Value) -> Value:
        return f.gep(I8, base, f.mul(row, stride))

    @staticmethod
    def _by_height(f: Function, functions: Sequence[Signature], rows: Value, args: list[Value]) -> None:
        labels, done = [f.block("height") for _ in functions], f.block("height_done")
        f.switch(rows, labels[-1], [(n + 1, label) for n, label in enumerate(labels[:-1])])
        for function, label in zip(functions, labels, strict=True):
            f.place(label)
            f.call(function, args)
            f.br(done)
        f.place(done)

    def _pack_b(self) -> Signature:
        f, arg = self._begin("pack_b")
        plan = self.plan
        self._in_bytes(f, arg, "rsB", "csB")
        with f.if_(f.icmp("eq", arg["K"], 0), "empty"):
            f.ret()
        step = equal_steps(f, arg["K"], plan.depth)
        width = self._packed_width(f, arg)
        begin = f.mul(arg["p0"], plan.panel)
        end = f.smin(f.mul(arg["p1"], plan.panel), arg["N"])
        with f.loop(0, arg["K"], step, "pc") as steps:
            depth = f.smin(f.sub(arg["K"], steps.index), step, "depth")
            source = self._row(f, arg["B"], steps.index, arg["rsB"])
            to = f.gep(plan.elem, arg["packed"], f.add(f.mul(steps.index, width), f.mul(begin, depth)))
            panel = f.mul(depth, plan.panel * self.size)
            pack_panels(
                f, plan, self.driver.pack, source, arg["csB"], arg["rsB"], begin, end, depth, to, panel)
        f.ret()
        return f.signature

    def _packed_width(self, f: Function, arg: dict[str, Value]) -> Value:
        """Columns of B when it is packed: those of whole panels."""
        return f.mul(f.udiv(f.add(arg["N"], self.plan.panel - 1), self.plan.panel), self.plan.panel)

    def _packed(self) -> Signature:
        f, arg = self._begin("packed")
        self._in_bytes(f, arg, "rsA", "csA", "rsC")
        arg["adds"] = f.icmp("ne", arg["accumulate"], 0, "adds")
        arg["rsB"], arg["csB"] = f.mul(self._packed_width(f, arg), self.size), arg["n0"]
        self._take_range(f, arg)
        self._call_driver(f, arg, arg["B"], const(I64, AHEAD))
        f.ret()
        return f.signature
