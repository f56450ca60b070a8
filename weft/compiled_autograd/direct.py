"""Short parts between calls of Python, run formula by formula as the engine would: to enter a native program costs more
than one or two small formulas do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numpy import ndarray

from weft.autograd.node import formula_of
from weft.compiled_autograd.evaluate import evaluate_as
from weft.compiled_autograd.parts import BackwardPart, Values
from weft.ir.graph import Node, Operand, Value, values_in
from weft.ir.opaque import VALIDATE, plan_of_opaque
from weft.ops.backward import Plan
from weft.ops.planned import NOT_PLANNED
from weft.support.generated import FunctionWriter
from weft.types.tensor_type import NONE, TENSOR

SMALL = 1 << 14  # elements of a tensor


def direct_function(part: BackwardPart) -> Callable[[Values], bool]:
    """What runs the nodes of a part one by one, without history: puts its outputs among the values. False, and nothing
    is done, where a tensor that is read is no small array."""
    return _Direct(part).function()


def operand_text(operand: Operand, code: FunctionWriter, of_value: Callable[[Value], str]) -> str:
    """An operand in lines of code. of_value: the text of a value of the graph; all else is a constant."""
    if type(operand) is Value:
        return of_value(operand)
    if type(operand) is tuple and any(values_in(operand)):
        return f"({''.join([operand_text(part, code, of_value) + ', ' for part in operand])})"
    return code.name(operand)


def fitting(gradient: str, dtype: str, dims: str, result: str, otherwise: str) -> list[str]:
    """The lines that take a gradient which is as it should be, and do something else with any other."""
    return [  # (no other payload has NumPy's dtypes)
        f"data = {gradient}._data",
        f"if data.dtype is {dtype} and data.shape == ({dims}): {result} = {gradient}",
        f"else: {otherwise}",
    ]


class _Direct:
    """The code of a short part, in which its values are variables."""

    def __init__(self, part: BackwardPart) -> None:
        self.part = part
        self.names: dict[Value, str] = {}
        self.code = FunctionWriter(
            "short part", "run(v)", ndarray=ndarray, SMALL=SMALL, NOT_PLANNED=NOT_PLANNED, evaluate=evaluate_as
        )
        self.lines = self.code.lines
        for value in part.reads:
            name = self.names[value] = f"i{len(self.names)}"
            self.lines.append(f"{name} = v[{self.code.name(value)}]")
            if value.type is TENSOR:
                self.lines += [
                    f"data = {name}._data", "if type(data) is not ndarray or data.size > SMALL: return False"
                ]

    def function(self) -> Callable[[Values], bool]:
        for node in self.part.nodes:
            self._add(node)
        self.lines += [*[f"v[{self.code.name(v)}] = {self.names[v]}" for v in self.part.outputs], "return True"]
        return self.code.function()

    def _operands(self, operands: Sequence[Operand]) -> str:
        return "".join([self._operand(o) + ", " for o in operands])

    def _operand(self, operand: Operand) -> str:
        return operand_text(operand, self.code, self.names.__getitem__)

    def _add(self, node: Node) -> None:
        plan = plan_of_opaque(node.op)
        generic = f"evaluate({self.code.name(node)}, ({self._operands(node.args)}))"
        for value in node.outputs:
            self.names[value] = f"o{len(self.names)}"
        results = [self.names[v] for v in node.outputs]
        take = f"({''.join(r + ', ' for r in results)}) = "
        if node.op is VALIDATE:
            gradient, dims, dtype = node.args
            gradient_name, expected = self._operand(gradient), self.code.name(dtype.numpy)
            self.lines += fitting(gradient_name, expected, self._operands(dims), results[0], take + generic)
        elif plan is None or plan.op.tensor_list_positions:
            self.lines.append(take + generic)
        else:
            self._formula(node, plan, results, take + generic)

    def _formula(self, node: Node, plan: Plan, results: Sequence[str], otherwise: str) -> None:
        grads, needs, packed = node.args
        formula = self.code.name(formula_of(plan, needs, len(grads)))
        places = [i for i, is_wanted in enumerate(needs) if is_wanted]
        absent = [r for r, v in zip(results, node.outputs, strict=True) if v.type is not NONE]
        self.lines += [
            f"out = {formula}.run(({self._operands((*grads, *packed))}))",
            f"if out is NOT_PLANNED: {otherwise}",
            "else:", *[f"    {r} = out[{i}]" for r, i in zip(results, places, strict=True)],
        ]
        if absent:  # (what is done otherwise says so)
            self.lines.append(f"    if {' or '.join(f'{r} is None' for r in absent)}: {otherwise}")
