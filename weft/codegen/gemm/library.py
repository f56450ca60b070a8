"""The functions of the matrix product (prototypes.py has their contract), written on its kernels: one library for each
dtype and target, compiled once.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.emit import I8, I64, Function, Module, Signature, Value, const
from weft.codegen.target import Target

from .driver import AHEAD, IN_PLACE, IN_PLACE_ROWS, PACKED, Driver, equal_steps, packed_block
from .kernel import Epilogue, store_tile
from .prototypes import PARAMETERS, GemmLibrary, gemm_symbol, result_of
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


def workspace_bytes(m: int, n: int, k: int, dtype: str, target: Target) -> int:
    """What the library's `workspace` returns."""
    return plan_gemm(dtype, target).workspace_bytes(m, n, k)


def packed_bytes(n: int, k: int, dtype: str, target: Target) -> int:
    """What the library's `packed_bytes` returns."""
    return plan_gemm(dtype, target).packed_bytes(n, k)


class _Entries:
    """Writes the exported functions over a driver."""

    def __init__(self, module: Module, plan: GemmPlan, epilogue: Epilogue) -> None:
        self.module, self.plan, self.size = module, plan, plan.elem.bytes
        self.driver = Driver(module, plan, epilogue)
        self.wide = [emit_wide(module, plan, rows) for rows in range(1, FEW_ROWS + 1)]
        self.dots = [emit_dots(module, plan, rows) for rows in range(1, FEW_ROWS + 1)]
        gemm = self._gemm()
        self.library = GemmLibrary(
            gemm,
            self._batched(gemm),
            self._pack_b(),
            self._packed(),
            self._workspace(),
            self._packed_bytes(),
            self._panels(),
        )

    def _begin(self, entry: str) -> tuple[Function, dict[str, Value]]:
        params = PARAMETERS[entry]
        f = self.module.function(gemm_symbol(entry, self.plan), result_of(entry), params)
        return f, {name: value for (_, name), value in zip(params, f.params, strict=True)}

    def _in_bytes(self, f: Function, arg: dict[str, Value], *names: str) -> None:
        for name in names:
            arg[name] = f.mul(arg[name], self.size, name)

    def _gemm(self) -> Signature:
        f, arg = self._begin("gemm")
        self._in_bytes(f, arg, "rsA", "csA", "rsB", "csB", "rsC")
        arg["adds"] = f.icmp("ne", arg["accumulate"], 0, "adds")
        arg["rows"] = f.sub(arg["m1"], arg["m0"], "rows")
        with f.if_(f.icmp("sle", arg["rows"], 0), "nothing"):
            f.ret()
        self._small_cases(f, arg)
        in_place = f.and_(f.icmp("eq", arg["csB"], self.size), f.icmp("sle", arg["rows"], IN_PLACE_ROWS))
        mode = f.select(in_place, const(I64, IN_PLACE), const(I64, PACKED), "mode")
        self._call_driver(f, arg, arg["B"], mode)
        f.ret()
        return f.signature

    def _call_driver(self, f: Function, arg: dict[str, Value], b: Value, mode: Value) -> None:
        arguments = {**arg, "B": b, "mode": mode}
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
            rest = [a, arg["rsA"], arg["csA"], arg["B"], arg["rsB"], c, arg["rsC"], arg["N"], arg["K"], arg["adds"]]
            self._by_height(f, self.wide, arg["rows"], rest)
            f.ret()
        with f.if_(f.and_(is_thin, along_k), "thin_dots"):
            self._by_height(f, self.dots, arg["rows"], self._dot_arguments(arg, a, c))
            f.ret()

    @staticmethod
    def _dot_arguments(arg: dict[str, Value], a: Value, c: Value) -> list[Value]:
        return [a, arg["rsA"], arg["B"], arg["csB"], c, arg["rsC"], arg["N"], arg["K"], arg["adds"]]

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

    def _batched(self, gemm: Signature) -> Signature:
        f, arg = self._begin("batched")
        with f.loop(arg["b0"], arg["b1"], 1, "batch") as loop:
            arguments = dict(arg, m0=const(I64, 0), m1=arg["M"])
            for name in "ABC":
                arguments[name] = f.gep(self.plan.elem, arg[name], f.mul(loop.index, arg["s" + name]))
            f.call(gemm, [arguments[name] for _, name in PARAMETERS["gemm"]])
        f.ret()
        return f.signature

    def _pack_b(self) -> Signature:
        f, arg = self._begin("pack_b")
        plan = self.plan
        self._in_bytes(f, arg, "rsB", "csB")
        with f.if_(f.icmp("eq", arg["K"], 0), "empty"):
            f.ret()
        step = equal_steps(f, arg["K"], plan.depth)
        with f.loop(arg["p0"], arg["p1"], 1, "panel") as panel:
            column = f.mul(panel.index, plan.panel)
            jc = f.sub(column, f.urem(column, plan.columns))
            columns = f.smin(f.sub(arg["N"], jc), plan.columns)
            count = f.smin(f.sub(arg["N"], column), plan.panel)
            source = self._row(f, arg["B"], column, arg["csB"])
            with f.loop(0, arg["K"], step, "pc") as inner:
                depth = f.smin(f.sub(arg["K"], inner.index), step)
                block = packed_block(f, plan, arg["packed"], arg["K"], jc, columns, inner.index)
                to = f.gep(plan.elem, block, f.mul(f.sub(column, jc), depth))
                at = self._row(f, source, inner.index, arg["rsB"])
                f.call(
                    self.driver.pack, [at, arg["csB"], arg["rsB"], count, depth, to, const(I64, plan.panel * self.size)]
                )
        f.ret()
        return f.signature

    def _packed(self) -> Signature:
        f, arg = self._begin("packed")
        self._in_bytes(f, arg, "rsA", "csA", "rsC")
        arg["adds"] = f.icmp("ne", arg["accumulate"], 0, "adds")
        arg["rsB"] = arg["csB"] = const(I64, 0)
        self._call_driver(f, arg, arg["B"], const(I64, AHEAD))
        f.ret()
        return f.signature

    def _workspace(self) -> Signature:
        f, arg = self._begin("workspace")
        plan = self.plan
        columns = self._up(f, f.smin(arg["N"], plan.columns))
        block = f.mul(f.add(columns, plan.strip), f.smin(arg["K"], plan.depth))
        total = f.mul(f.add(block, plan.panel), self.size)
        f.ret(f.select(f.icmp("sgt", arg["M"], 0), total, const(I64, 0)))
        return f.signature

    def _packed_bytes(self) -> Signature:
        f, arg = self._begin("packed_bytes")
        f.ret(f.mul(f.mul(self._up(f, arg["N"]), arg["K"]), self.size))
        return f.signature

    def _panels(self) -> Signature:
        f, arg = self._begin("panels")
        f.ret(f.udiv(f.add(arg["N"], self.plan.panel - 1), self.plan.panel))
        return f.signature

    def _up(self, f: Function, n: Value) -> Value:
        return f.mul(f.udiv(f.add(n, self.plan.panel - 1), self.plan.panel), self.plan.panel)
