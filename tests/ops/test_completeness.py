"""The catalogue has no gaps, and its rules ask no question about sizes."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from derivatives import NO_FORMULA
from sampling import NoSample, cases, mine, oracle_of

import weft  # noqa: F401  (defines every entry)
from tests.ops.oracles.draws import DISTRIBUTIONS
from weft.ir.builder import Builder, result_type
from weft.ops.array import Array
from weft.ops.backward import apply_functional, plan_of
from weft.ops.compute import evaluate
from weft.ops.op import OPS
from weft.ops.packet import aten
from weft.ops.route import default_route
from weft.runtime.generator import Generator
from weft.support.errors import CaptureError, WeftError
from weft.types import dtype as dt
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import TensorType, tensor_type


@pytest.mark.parametrize("op", list(OPS.values()), ids=lambda op: op.name)
def test_an_entry_has_its_fields(op):
    assert op.doc.strip().endswith((".", ")", ":")), f"{op.name}: doc is not a sentence: {op.doc!r}"
    opens_freely = op.decompose is not None and op.vjp is None
    assert op.type is not None or op.view is not None or opens_freely, f"{op.name}: no type rule"
    assert (
        op.vjp is not None or op.view is not None or op.decompose is not None
    ), f"{op.name}: no vjp; write NOT_DIFFERENTIABLE if it has none"
    if op.vjp:
        plan_of(op)  # every formula parameter is known
        promised = set(getattr(op.vjp, "inputs", None) or op.vjp)
        tensors = {a.name for a in op.schema.arguments if a.kind == "Tensor"}
        assert promised <= tensors, f"{op.name}: vjp names {promised - tensors}, which are no tensors"


def test_oracles_take_the_schema_s_arguments():
    for op in OPS.values():
        if op.reference is None or isinstance(op.reference, np.ufunc):
            continue
        try:
            parameters = inspect.signature(op.reference).parameters.values()
        except ValueError:
            continue  # a NumPy function in C
        fixed = [
            p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        assert len(fixed) <= len(op.schema.arguments), op.name


def test_every_operator_has_samples():
    """Made up from its schema and accepted, or written: in the entry (`samples`) or, where they are no line of it,
    in oracles/."""
    def has(op):
        try:
            return any(is_accepted(op, args) for args in cases(op, np.random.default_rng(3)))
        except NoSample:
            return False

    missing = [op.name for op in mine() if op.effect != "random" and not has(op)]
    assert not missing, f"write `samples` for {missing}"


def test_every_operator_has_an_oracle():
    """A function of NumPy arrays (`reference` in the entry, or in oracles/), or the distribution of what it draws."""
    missing = [op.name for op in mine() if oracle_of(op) is None and op.name not in DISTRIBUTIONS]
    assert not missing, f"write `reference` for {missing}"


def test_factories_take_symbolic_sizes():
    builder = Builder("factories", ShapeEnv())
    n = builder.env.fresh("s", 7)  # an example: a range from 2 asks whether it ends behind its start
    generator = Generator(seed=1)
    generator.return_to((1, builder.env.fresh("i"), builder.env.fresh("i")))
    with builder.active():
        made = {
            "zeros": aten.zeros((n, 2)), "full": aten.full((n,), 1.5), "arange": aten.arange(n),
            "start": aten.arange(2, n, 3), "eye": aten.eye(n), "linspace": aten.linspace(0, 1, n),
            "rand": OPS["aten::rand"].decompose((n, 3), None, None, generator),
            "randn": OPS["aten::randn"].decompose((n,), dt.float64, None, generator),
            "randperm": OPS["aten::randperm"].decompose(n, None, None, generator),
        }
    assert [str(d) for d in made["zeros"].dims] == ["s0", "2"] and made["linspace"].dims == (n,)
    assert str(generator.offset) == "i1 + 5*s0" or str(generator.offset) == "5*s0 + i1"
    assert all(OPS[node.op.name].effect == "pure" for node in builder.nodes)


def symbolic_arguments(op, rng, builder):
    """The first sample that has tensors with sizes above 1, as handles whose sizes are symbols without example."""
    symbols: dict[int, object] = {}

    def size(n):
        return symbols.setdefault(n, builder.env.fresh("s"))

    def handle(v):
        if not isinstance(v, np.ndarray):
            return v
        dims = tuple(n if n == 1 else size(n) for n in v.shape)
        kind = dt.bool_ if v.dtype == bool else dt.from_numpy(v.dtype)
        return builder.handle(builder.param(tensor_type(kind, dims)))

    for args in cases(op, rng):
        tensors = [v for v in args if isinstance(v, np.ndarray)]
        if tensors and all(v.ndim >= 1 and v.size > 1 for v in tensors) and is_accepted(op, args):
            return tuple(handle(v) for v in args)
    raise NoSample(op.name)


def is_accepted(op, args) -> bool:
    """Whether the entry computes this sample (one made from the schema alone may mean nothing)."""
    try:
        with default_route(Array.__weft_route__):
            evaluate(op, args)
    except Exception:
        return False
    return True


SYMBOLIC = [
    op
    for op in mine() if any(a.kind == "Tensor" for a in op.schema.arguments) and op.effect == "pure" and op.view is None
]


@pytest.mark.parametrize("op", SYMBOLIC, ids=lambda op: op.name)
def test_rules_ask_no_question_about_sizes(op, rng):
    builder = Builder("lint", ShapeEnv())
    try:
        handles = symbolic_arguments(op, rng, builder)
    except NoSample as problem:
        pytest.skip(f"no sample whose tensors all have several elements: {problem}")
    with builder.active():
        types = tuple(builder.operand(h).type if hasattr(h, "value") else h for h in handles)
        try:
            foretold = result_type(op, types) if op.type is not None else None
        except (CaptureError, WeftError, KeyError) as problem:
            pytest.skip(f"the type rule needs to know the sizes: {problem}")
        if op.decompose is not None and op.vjp is not None:
            op.decompose(*handles)
        if op.vjp and foretold is not None and op.base not in NO_FORMULA:
            formulas(op, handles, builder)


def formulas(op, handles, builder):
    """Run every formula on handles."""
    out = builder.call(op, handles)
    results = out if isinstance(out, tuple) else (out,)
    grads = tuple(builder.handle(builder.param(tensor_type(r.dtype, r.dims))) for r in results)
    plan = plan_of(op)
    packed = []
    for slot in plan.slots:
        if slot.kind == "result":
            packed.append(results[slot.position])
        else:
            value = handles[slot.position]
            packed.append({"arg": lambda v: v, "dims": lambda v: v.dims, "dtype": lambda v: v.dtype}[slot.kind](value))
    needs = tuple(
        hasattr(handles[i], "dims") and isinstance(handles[i].value.type, TensorType) for i in plan.differentiable
    )
    apply_functional(plan, grads, needs, tuple(packed))
