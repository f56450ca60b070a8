"""The table of operators: of each, how ONNX's is run (`@operator`) and how weft's is written (`@symbolic`, `pair`).

An operator that has the same inputs and no attributes on both sides is one line, `pair("Relu", "aten::relu")`.
Others have a rule for each direction, one behind the other in operators/.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, TypeVar

Rule = TypeVar("Rule", bound=Callable[..., Any])
STANDARD, LEARNING, TRAINING = "", "ai.onnx.ml", "ai.onnx.preview.training"
_GIVEN = ("opset", "outputs", "scope")  # what a rule is told besides inputs and attributes


@dataclass
class Operator:
    """How one operator of ONNX is run. `run` takes its inputs by position and its attributes by keyword."""

    name: str
    run: Callable[..., Any]
    attributes: Mapping[str, str]  # the rule's keyword of each
    given: frozenset[str]  # of _GIVEN, what the rule asks for
    annotations: tuple[str, ...]  # of the inputs
    rest: str  # the annotation of any further inputs, empty where there are none
    most: int | None  # inputs; None where there is no limit
    on_host: Callable[..., Any] | None = None  # the same on NumPy arrays, where all inputs are known
    counts_elements: bool = False  # whether the sizes of the result hang on the values of tensors

    def takes_as_is(self, position: int) -> bool:
        """Whether an input may come as numbers that are known."""
        return self._annotation(position) in ("Host", "Either")

    def reads(self, position: int) -> bool:
        """Whether an input is read as numbers, which say sizes or places."""
        return self._annotation(position) == "Host"

    def _annotation(self, position: int) -> str:
        return self.annotations[position] if position < len(self.annotations) else self.rest


IMPORTS: dict[tuple[str, str], Operator] = {}  # by domain and name
EXPORTS: dict[str, Callable[..., Any]] = {}  # by weft's name, with the overload
FUNCTIONS: dict[str, Callable[..., Any]] = {}  # of weft's Python that is no operator, by name
under_way: list[bool] = []  # of `export`, its calls that have not ended


def is_in_onnx_export() -> bool:
    """Whether `export` is tracing or writing a model."""
    return bool(under_way)


def operator(
    name: str, domain: str = STANDARD, on_host: Callable[..., Any] | None = None, counts_elements: bool = False
) -> Callable[[Rule], Rule]:
    """Register how an operator is run.

    The rule's positional parameters are the inputs (None where one is absent), its keyword-only ones the attributes,
    with their defaults (`axes_` where an older version has as an attribute what is an input `axes` now). `opset`,
    `outputs` (how many results are asked for) and `scope` (the values around a node with subgraphs) are given where
    it names them. A parameter annotated `Host` is handed over as it is, numbers that are known included, and read
    as numbers; one annotated `Either` is handed over as it is.
    on_host: the same function on NumPy arrays of numbers that are known, sizes among them. counts_elements: the
    sizes of the result hang on the values of tensors.
    """

    def register(rule: Rule) -> Rule:
        IMPORTS[domain, name] = replace(_described(name, rule, on_host), counts_elements=counts_elements)
        return rule

    return register


def _described(name: str, rule: Callable[..., Any], on_host: Callable[..., Any] | None) -> Operator:
    parameters = inspect.signature(rule).parameters.values()
    keywords = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    inputs = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    spread = [p for p in parameters if p.kind is p.VAR_POSITIONAL]
    return Operator(
        name, rule, {k.rstrip("_"): k for k in keywords - set(_GIVEN)}, frozenset(keywords & set(_GIVEN)),
        tuple(str(p.annotation) for p in inputs), str(spread[0].annotation) if spread else "",
        None if spread else len(inputs), on_host,
    )  # fmt: skip


def symbolic(*names: str) -> Callable[[Rule], Rule]:
    """Register how operators are written: an entry of the table."""

    def register(rule: Rule) -> Rule:
        for name in names:
            EXPORTS[name] = rule
        return rule

    return register


def users_symbolic(*names: str) -> Callable[[Rule], Rule]:
    """Register how operators of weft, or of your own, are written to ONNX files: `rule(g, *arguments)` gets the
    exporter and the arguments in the order of the schema, and returns the result or results. It takes the place of
    weft's own rule.
    """
    with suppress(ImportError):  # weft's rules first; without the package onnx nothing is written
        import_module("weft.onnx.operators")
    return symbolic(*names)


def function_symbolic(name: str) -> Callable[[Rule], Rule]:
    """Register how a function of weft's Python is written that is no operator, and would ask for values:
    `rule(g, ...)` has the function's parameters. The function asks its arguments for `__weft_written__`."""

    def register(rule: Rule) -> Rule:
        FUNCTIONS[name] = rule
        return rule

    return register


@dataclass(frozen=True)
class Pair:
    """One operator that both sides have."""

    onnx: str
    cast: str
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, g: Any, *arguments: Any) -> Any:
        return g.op(self.onnx, *g.promoted(arguments, self.cast), **self.attributes)


def pair(
    onnx: str, weft: str, run: Callable[..., Any], cast: str = "result", on_host: Callable[..., Any] | None = None
) -> None:
    """An operator of the same inputs on both sides. cast: what an export casts the inputs to first: the "result"'s
    dtype, the "inputs"' common one, or "" for neither."""
    operator(onnx, on_host=on_host)(run)
    symbolic(weft)(Pair(onnx, cast))
