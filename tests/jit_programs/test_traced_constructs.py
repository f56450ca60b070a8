"""Random chains of constructs, traced: with other inputs and changed parameters over four calls they give the values
and gradients of the Module itself, also once saved and loaded, frozen, and exported.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import onnx
import pytest

import weft
import weft.onnx
from tests.agree.width import TIMES, times
from tests.jit_programs.traced_constructs import (
    AROUND,
    ASKING,
    BEYOND_ONNX,
    LINKS,
    WITH_STATE,
    Chain,
    counting,
    normed_by_its_values,
)
from weft import Tensor

COUNT = 3 if TIMES == 1 else times(5)


def loaded(module: Any) -> Any:
    """The Module as a file has it."""
    file = io.BytesIO()
    weft.jit.save(module, file)
    file.seek(0)
    return weft.jit.load(file)


def outcome(module: Any, x: Tensor) -> dict[str, Any]:
    """What a call gives: the value, the gradients, the buffers."""
    for parameter in module.parameters():
        parameter.grad = None
    x = x.clone().requires_grad_()
    out = module(x)
    (out * weft.arange(1.0, out.numel() + 1).reshape(out.shape)).sum().backward()
    found = {"value": out, "x": x.grad, **{n: p.grad for n, p in module.named_parameters()}}
    found.update(module.named_buffers())
    return {n: None if t is None else t.detach().clone() for n, t in found.items()}


def assert_same(expected: dict[str, Any], found: dict[str, Any], what: str) -> None:
    assert expected.keys() == found.keys(), what
    for name, value in expected.items():
        assert (value is None) == (found[name] is None), f"{what}: {name}"
        if value is not None:
            np.testing.assert_allclose(
                found[name].numpy(), value.numpy(), rtol=2e-3, atol=1e-4, err_msg=f"{what}: {name}"
            )


def check(links: list[Any], seed: int, is_stored: bool = True) -> None:
    weft.manual_seed(seed)
    module, reference = Chain(links), Chain(links)
    if normed_by_its_values in links and seed % 2:
        module.eval()
        reference.eval()
    example = weft.rand(2, 3, requires_grad=True)
    traced = weft.jit.trace(module, (example,), check_trace=False)
    ways = {"traced": traced, "loaded": loaded(traced), "loaded twice": loaded(loaded(traced))}
    if not is_stored:
        del ways["loaded twice"]
    reference.load_state_dict(module.state_dict())
    for call, rows in enumerate((2, 4, 3, 2)):
        x = weft.rand(rows, 3) * 2 - 1
        expected = outcome(reference, x)
        for name, way in ways.items():
            assert_same(expected, outcome(way, x), f"{[link.__name__ for link in links]}, call {call}, {name}")
        with weft.no_grad():
            for way in (reference, *ways.values()):
                for parameter in way.parameters():
                    parameter.mul_(0.9).add_(0.1)
    if counting not in links and is_stored:
        check_constants(links, reference.eval(), traced.eval())


def check_constants(links: list[Any], reference: Any, traced: Any) -> None:
    """Frozen and exported, as the Module is now."""
    try:
        frozen = weft.jit.freeze(traced)
    except weft.WeftError as refused:
        assert normed_by_its_values in links and "writes" in str(refused)  # it was traced in training mode
        return
    for way in (frozen, loaded(frozen)):
        x = weft.rand(3, 3) * 2 - 1
        np.testing.assert_allclose(way(x).detach().numpy(), reference(x).detach().numpy(), rtol=2e-3, atol=1e-4)
    file = io.BytesIO()
    options = {"input_names": ["x"], "dynamic_axes": {"x": {0: "rows"}}}
    if not BEYOND_ONNX.isdisjoint(links):
        with pytest.raises(weft.support.errors.Unsupported, match=r"py:\d+: .*cannot be exported to ONNX: "):
            weft.onnx.export(traced, weft.rand(2, 3), file, **options)
        return
    weft.onnx.export(traced, weft.rand(2, 3), file, **options)
    model = weft.onnx.load(onnx.load_from_string(file.getvalue()))
    x = weft.rand(4, 3)
    np.testing.assert_allclose(model(x).numpy(), reference(x).detach().numpy(), rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.__name__)
def test_each_construct(link: Any) -> None:
    check([link], LINKS.index(link))


def test_constructs_within_each_other(rng: np.random.Generator) -> None:
    """What the Module itself refuses is none; nor is what a batched condition asks while a vmap runs."""
    stateless = [link for link in LINKS if link not in WITH_STATE]
    count = 0
    while count < 2 * COUNT:
        link = stateless[rng.integers(len(stateless))]
        names = [link.__name__]
        for _ in range(int(rng.integers(1, 3))):
            around = AROUND[rng.integers(len(AROUND))]
            link = around(link)
            names.append(around.__name__)
        asked = min((names.index(n) for n in ASKING if n in names), default=len(names))
        if "in_map" in names[asked:]:
            continue
        seed = int(rng.integers(1 << 20))
        weft.manual_seed(seed)
        try:
            for rows in (2, 3):
                outcome(Chain([link]), weft.rand(rows, 3))
        except Exception:
            continue
        count += 1
        link.__name__ = " ".join(names)
        check([link], seed, is_stored=False)


def test_random_chains(rng: np.random.Generator) -> None:
    for _ in range(COUNT):
        links = [LINKS[i] for i in rng.integers(len(LINKS), size=int(rng.integers(2, 5)))]
        check(links, int(rng.integers(1 << 20)))
