"""The reference's text of an operator: its names, signatures, what it is, and a value computed
when the page is written."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

import weft
from weft import special
from weft.ops.op import Op

KIND = {"scalar": "pointwise", "reduce": "reduction", "view": "view", "kernel": "kernel", "decompose": "composite"}
EFFECT = {
    "random": "draws random numbers", "raises": "checks its operands while it runs", "io": "reads or writes",
    "python": "runs Python",
}
PREFIXED = ("linalg", "fft")  # weft.linalg.inv is aten::linalg_inv
# signs and last digits are the library's, or no two draws are equal
NO_EXAMPLE = ("singular", "factorizations", "linalg", "pseudoinverse", "random")
LONGEST = 150  # characters of an example
ELEMENTS = 12


def public_names(key: str, ops: list[Op]) -> list[str]:
    """Every name under which users find a packet, the first one first; none for what is internal."""
    namespace, base = key.split("::")
    if base.startswith("_"):
        return []
    places = {place for op in ops for place in op.public}
    names = list(_names_in(namespace, base, places))
    if "Tensor" in places and any(op.inplace for op in ops):
        names.append(f"weft.Tensor.{base}_")
    return [name for name in dict.fromkeys(names) if exists(name)]


def _names_in(namespace: str, base: str, places: set[str]) -> Iterator[str]:
    if namespace == "nn":
        yield f"weft.nn.functional.{base}"
        return
    if namespace != "aten":
        return
    if "weft" in places:
        yield f"weft.{base}"
    for place in PREFIXED:
        if place in places and base.startswith(place + "_"):
            yield f"weft.{place}.{base[len(place) + 1:]}"
    for name, operator in sorted(special._functions.operators().items()):
        if operator == base:
            yield f"weft.special.{name}"
    if {"weft", "nn.functional"} & places and in_functional(base):
        yield f"weft.nn.functional.{base}"
    if "Tensor" in places:
        yield f"weft.Tensor.{base}"


@functools.cache
def in_functional(base: str) -> bool:
    """Whether nn.functional lists this operator, and has no entry of its own under the name."""
    return f"nn::{base}" not in weft.ops.op.PACKETS and base in dir(weft.nn.functional)


@functools.cache
def exists(name: str) -> bool:
    """Whether a dotted name can be looked up."""
    found: Any = weft
    for part in name.split(".")[1:]:
        try:
            found = getattr(found, part)
        except (AttributeError, ModuleNotFoundError):
            return False
    return True


def packet_text(names: list[str], ops: list[Op]) -> str:
    """Names, signatures, what it computes, what it is, a value."""
    lines = [" ".join(f"`{name}`" for name in names), ""]
    lines += [f"    {signature_text(op)}" for op in ops]
    docs = list(dict.fromkeys(" ".join(op.doc.split()) for op in ops))
    lines += ["", *docs, "", f"*{facts_text(ops)}*"]
    shown = next((text for text in map(functools.partial(example_text, names), ops) if text), None)
    return "\n".join(lines if shown is None else [*lines, "", shown])


def signature_text(op: Op) -> str:
    """The schema without namespace and overload."""
    return re.sub(r"^\w+::(\w+)(\.\w+)?", r"\1", str(op.schema))


def facts_text(ops: list[Op]) -> str:
    """One line: kind, gradient, derived forms, effects."""
    facts = list(dict.fromkeys(KIND[op.how] for op in ops))
    floats = any(
        op.is_differentiable or (op.opens_above_autograd and op.schema.returns[0].kind == "Tensor") for op in ops
    )
    facts.append("gradients" if floats else "no gradient")
    facts += [
        word for word, has in (("in place", any(o.inplace for o in ops)), ("out=", any(o.out for o in ops))) if has
    ]
    facts += dict.fromkeys(EFFECT[op.effect] for op in ops if op.effect != "pure")
    return ", ".join(facts)


# ---------------------------------------------------------------- a value


def example_text(names: list[str], op: Op) -> str | None:
    """`call` is `value`, from the entry's first sample that is short enough."""
    if op.effect == "random" or "empty" in op.base or op.origin.rpartition(".")[2] in NO_EXAMPLE:
        return None
    for args, kwargs in plain_samples(op) if op.samples is None else op.samples(np.random.default_rng(0)):
        text = _one_example(names[0], op, args, kwargs)
        if text is not None:
            return text
    return None


def plain_samples(op: Op) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Operands for an entry that brings none: numbers of both signs, else those for which it is defined."""
    needed = [a for a in op.schema.arguments if not a.has_default]
    if op.how == "view" or any(a.kind not in ("Tensor", "Scalar") or a.is_list for a in needed):
        return
    for values in ([-1.5, 0.5, 2.0], [0.2, 0.5, 0.8], [1.0, 1.5, 3.0]):
        operands = (np.roll(np.array(values), i) if a.kind == "Tensor" else values[-1] for i, a in enumerate(needed))
        yield tuple(operands), {}


def _one_example(name: str, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    arrays = [a for a in _leaves((args, tuple(kwargs.values()))) if isinstance(a, np.ndarray)]
    if op.how == "scalar" and len({a.shape for a in arrays}) == 1:
        shorten: Any = lambda a: a.reshape(-1)[:3]  # noqa: E731
    else:
        shorten = lambda a: a  # noqa: E731
    if not arrays or (sum(a.size for a in arrays) > ELEMENTS and op.how != "scalar"):
        return None
    args, kwargs = _map((args, kwargs), lambda a: _readable(shorten(a)))
    call = f"{name.removeprefix('weft.')}({_call_text(args, kwargs)})"
    if len(call) > LONGEST:
        return None
    try:
        value, again = (_value_text(_call(name, seed, *_map((args, kwargs), weft.from_numpy))) for seed in range(2))
    except (weft.WeftError, TypeError):  # operands of another kind: integers, complex numbers, matrices
        if op.samples is None:
            return None
        raise
    if value != again or len(value) > LONGEST or (op.samples is None and "nan" in value):
        return None  # drawn, too long, or not defined here
    return f"`{call}` is `{value}`"


def _readable(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(a.round(1) + 0.0) if a.dtype.kind in "fc" else a  # + 0.0: no negative zeros


def _call(name: str, seed: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    found: Any = weft
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    weft.manual_seed(seed)
    return found(*args, **kwargs)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for v in value:
            yield from _leaves(v)
    else:
        yield value


def _map(value: Any, change: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_map(v, change) for v in value)
    if isinstance(value, dict):
        return {k: _map(v, change) for k, v in value.items()}
    return change(value) if isinstance(value, np.ndarray) else value


def _call_text(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return ", ".join([*map(_text, args), *(f"{k}={_text(v)}" for k, v in kwargs.items())])


def _value_text(value: Any) -> str:
    if isinstance(value, weft.Tensor):
        return _text(value.tolist())
    return f"({', '.join(map(_value_text, value))})" if isinstance(value, tuple) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return _text(value.tolist())
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, complex):
        return f"{_text(value.real)}{'-' if math.copysign(1, value.imag) < 0 else '+'}{_text(abs(value.imag))}j"
    if isinstance(value, float):
        short = f"{value:.4g}"
        return short if not math.isfinite(value) or any(c in short for c in ".e") else f"{short}.0"
    return repr(value)
