"""Completeness of the catalogue: each entry has what the rest of weft reads from it.
A gap names the operator and the field to write."""

from __future__ import annotations

import subprocess
import sys

import weft  # noqa: F401  (defines the operators)
from weft.codegen.lower.graph import lower_graph  # noqa: F401  (enters the lowerings)
from weft.codegen.lower.lowering import LOWERINGS
from weft.ir.opaque import find_opaque, opaque_base, plan_of_opaque
from weft.onnx.operators import pointwise  # noqa: F401  (with all others)
from weft.onnx.registry import EXPORTS
from weft.ops.backward import plan_of, plans_of
from weft.ops.op import OPS, Op
from weft.ops.schema import parse_schema

# (other tests define operators of users, and take them back)
WRITTEN = [op for op in list(OPS.values()) if op.schema.namespace in ("aten", "nn", "math", "cmath")]


def gaps(question: str, holds) -> None:
    """Fails with the names of the entries for which something does not hold."""
    found = [op.name for op in WRITTEN if not holds(op)]
    assert not found, f"{question}: {', '.join(found)}"


def test_schemas_are_their_own_text() -> None:
    gaps("schema does not come back from its text", lambda op: str(parse_schema(str(op.schema))) == str(op.schema))
    gaps("listed under another name", lambda op: OPS[op.name] is op)


def test_every_operator_says_what_it_computes() -> None:
    gaps("write doc: a sentence that ends with a full stop", lambda op: op.doc.rstrip().endswith((".", ")")))


def test_every_operator_has_types() -> None:
    gaps(
        "write type (the type rule)", lambda op: op.type is not None or op.view is not None or op.decompose is not None
    )


def test_every_operator_has_a_derivative_or_says_that_there_is_none() -> None:
    gaps(
        "write vjp (or NOT_DIFFERENTIABLE)",
        lambda op: op.vjp is not None or op.decompose is not None or op.view is not None,
    )


def test_formulas_name_what_exists() -> None:
    def holds(op: Op) -> bool:
        plan = plan_of(op)
        return bool(plan.differentiable) and all(op.schema.arguments[i].is_tensor for i in plan.differentiable)

    gaps("vjp speaks of an input that is no tensor", lambda op: not op.is_differentiable or holds(op))


def test_views_have_twins() -> None:
    names = {op.base for op in OPS.values()}
    for twin in ("copy", "scatter"):
        gaps(f"define {twin} twin", lambda op, twin=twin: op.view is None or f"{op.base}_{twin}" in names)


def test_in_place_forms_write_self() -> None:
    gaps("inplace needs a tensor `self` first", lambda op: not op.inplace or op.schema.arguments[0].is_tensor)


def test_every_derivative_has_a_name_of_its_own_that_text_can_use() -> None:
    def holds(op: Op) -> bool:
        found = [(plan, find_opaque(f"autograd::{opaque_base(plan)}")) for plan in plans_of(op)]
        return all(name is not None and plan_of_opaque(name) is plan for plan, name in found)

    gaps("two derivatives share a name", lambda op: not op.is_differentiable or holds(op))


FIELDS = """
import dataclasses, weft
from weft.ops.op import OPS, Op

first = {op: [getattr(op, f.name) for f in dataclasses.fields(Op)] for op in OPS.values()}
import weft.codegen.lower.graph, weft.func, weft.jit, weft.onnx
weft.vmap(weft.func.grad(lambda x: x.sin().sum()))(weft.ones(2, 3))
weft.func.jvp(lambda x: x.cumsum(0), (weft.ones(3),), (weft.ones(3),))
weft.compile(lambda x: x * 2)(weft.ones(3))
for op, values in first.items():
    for f, value in zip(dataclasses.fields(Op), values, strict=True):
        assert getattr(op, f.name) is value, f"{op.name}: {f.name} was changed after it was defined"
"""


def test_an_entry_is_all_there_when_it_is_defined() -> None:
    """Nothing that is imported or used later adds to an entry: what it says stands in its own file."""
    done = subprocess.run([sys.executable, "-c", FIELDS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_rules_of_targets_are_for_entries_there_are() -> None:
    """A target's rules are entered by decorators that name an entry: native code of kernels, and what a model says."""
    missing = [name for name in EXPORTS if name not in OPS]
    assert not missing, f"@symbolic of no operator: {missing}"
    others = [op.name for op in LOWERINGS if op.kernel is None and not op.is_whole]
    assert LOWERINGS and not others, f"@lowers of what is no kernel, and has native code without it: {others}"
