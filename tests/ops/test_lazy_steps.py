"""Each entry as a step of the lazy device that comes again: what its inline cache does is what eager mode does, the
first time and later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sampling import NoSample, cases, mine, tensors

import weft
import weft.lazy.inline.writer as writer
from tests.agree.width import times
from weft.layers.walk import inplace
from weft.ops.op import Op
from weft.ops.route import call
from weft.support.knobs import knobs
from weft.tensor.tensor import Tensor

ROUNDS = times(2)
SAMPLES = times(2)


def on(device: str, value: Any, wants: bool) -> Any:
    """A sample's argument on a device; its tensors are results there, which may be written."""
    if isinstance(value, np.ndarray):
        made = weft.from_numpy(value.copy()).to(device)
        return made.requires_grad_().mul(1) if wants and made.dtype.is_floating_point else made.clone()
    return tuple(on(device, v, wants) for v in value) if isinstance(value, tuple) else value


def told(t: Tensor) -> Any:
    fn = t.grad_fn
    names = None if fn is None else (fn.name(), [None if n is None else n.name() for n, _ in fn.next_functions])
    return str(t.dtype), tuple(t.shape), tuple(t.stride()), t.requires_grad, names


def seen(op: Op, sample: Any, device: str, wants: bool, writes: bool) -> Any:
    """What one call (or its in-place form) leaves behind: its results and its arguments, and gradients of these."""
    weft.manual_seed(0)
    args = on(device, sample, wants)
    out = inplace(op, args) if writes else call(op, args)
    results, given = list(tensors(out)), list(tensors(args))
    facts = [told(t) for t in results] + [(t._version, *told(t)) for t in given]
    facts += [[r is t for t in given] for r in results]
    values = [*results, *given]
    ends = [t.real if t.dtype.is_complex else t for t in results if t.requires_grad]
    starts = [t for t in given if t.requires_grad]
    if wants and ends and starts:
        total = sum(t.double().sum() for t in ends)
        values += [g for g in weft.autograd.grad(total, starts, allow_unused=True) if g is not None]
    if device == "lazy":
        weft.lazy.mark_step()
    return facts, [t.detach().cpu().numpy() for t in values]


def difference(found: Any, wanted: Any) -> str | None:
    """What differs between two calls, or None."""
    if found[0] != wanted[0]:
        return f"{found[0]}, should be {wanted[0]}"
    for a, b in zip(found[1], wanted[1], strict=True):
        if a.shape != b.shape or not np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True):
            return f"{a}, should be {b}"
    return None


@pytest.mark.parametrize("wants", [False, True], ids=["values", "gradients"])
@pytest.mark.parametrize("writes", [False, True], ids=["calls", "writes"])
def test_steps_that_come_again(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, wants: bool, writes: bool
) -> None:
    monkeypatch.setattr(writer, "SEEN", 1)
    monkeypatch.setattr(knobs, "backend", "interpret")
    wrong, counted = [], 0
    for op in [op for op in mine() if not op.base.startswith("_") and op.effect != "random"]:
        if writes and not op.inplace:
            continue
        try:
            samples = list(cases(op, rng))[:SAMPLES]
        except NoSample:
            continue
        for sample in samples:
            try:
                wanted = seen(op, sample, "cpu", wants, writes)
                first = seen(op, sample, "lazy", wants, writes)
            except Exception:
                continue  # a sample that was made up may mean nothing
            for turn in range(ROUNDS):
                try:
                    problem = difference(seen(op, sample, "lazy", wants, writes), (first[0], wanted[1]))
                except Exception as error:
                    problem = repr(error)
                if problem is not None:
                    wrong.append(f"{op.name}, round {turn}: {problem[:300]}")
                    break
            counted += 1
        weft.lazy.reset()
    assert not wrong, "\n".join(wrong)
    assert counted > (20 if writes else 100)
