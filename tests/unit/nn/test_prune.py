"""nn.utils.prune: what goes, what is kept, and what the optimizer sees."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor, nn
from weft.nn.utils import prune

RNG = np.random.Generator


def layer(rng: RNG, *shape: int) -> Any:
    module = nn.Linear(shape[1], shape[0])
    with weft.no_grad():
        module.weight.copy_(weft.from_numpy(rng.normal(size=shape)))
    return module


def test_the_least_elements_go_and_the_methods_add_up(rng: RNG) -> None:
    module = layer(rng, 4, 5)
    weight = module.weight.detach().numpy().copy()
    assert prune.l1_unstructured(module, "weight", 6) is module
    assert [n for n, _ in module.named_parameters()] == ["bias", "weight_orig"]
    kept = np.ones(20)
    kept[np.argsort(abs(weight).ravel(), kind="stable")[:6]] = 0
    np.testing.assert_array_equal(module.weight_mask.numpy(), kept.reshape(4, 5))
    np.testing.assert_array_equal(module.weight.detach().numpy(), weight * kept.reshape(4, 5))
    prune.l1_unstructured(module, "weight", 0.5)  # half of the 14 that are left
    assert int(module.weight_mask.sum()) == 7
    hook = next(iter(module._forward_pre_hooks.values()))
    assert isinstance(hook, prune.PruningContainer) and len(hook) == 2 and prune.is_pruned(nn.Sequential(module))
    assert isinstance(hook[0], prune.L1Unstructured) and len(list(hook)) == 2
    prune.ln_structured(module, "weight", 1, n=2, dim=0)
    pruned = module.weight.detach().clone()
    assert prune.remove(module, "weight") is module and not prune.is_pruned(module)
    assert sorted(n for n, _ in module.named_parameters()) == ["bias", "weight"] and not list(module.buffers())
    assert weft.equal(module.weight, pruned)
    with pytest.raises(weft.WeftError, match="has to be pruned"):
        prune.remove(module, "weight")


@pytest.mark.parametrize(("dim", "n"), [(0, 1), (1, 2), (-1, float("inf")), (0, "fro")])
def test_slices_of_the_least_norm_go(rng: RNG, dim: int, n: Any) -> None:
    module = layer(rng, 6, 4)
    weight = module.weight.detach()
    norms = weft.linalg.vector_norm(weight, 2 if n == "fro" else n, dim=1 - dim % 2).numpy()
    prune.ln_structured(module, "weight", 2, n=n, dim=dim)
    gone = np.flatnonzero((module.weight_mask == 0).all(1 - dim % 2).numpy())
    np.testing.assert_array_equal(gone, np.sort(np.argsort(norms)[:2]))
    assert int((module.weight_mask == 0).sum()) == 2 * weight.shape[1 - dim % 2]


def test_what_is_random_has_the_count_asked_for() -> None:
    for _ in range(3):
        module = nn.Conv2d(4, 3, 2)
        prune.random_unstructured(module, "weight", amount=0.25)
        assert int((module.weight_mask == 0).sum()) == 12
        prune.random_structured(module, "weight", amount=1, dim=1)
        assert int((module.weight_mask.sum((0, 2, 3)) == 0).sum()) >= 1
    prune.identity(module, "bias")
    assert bool((module.bias_mask == 1).all())


def test_several_parameters_as_one_and_scores(rng: RNG) -> None:
    one, other = layer(rng, 3, 4), layer(rng, 5, 3)
    values = np.concatenate([abs(m.weight.detach().numpy()).ravel() for m in (one, other)])
    prune.global_unstructured([(one, "weight"), (other, "weight")], prune.L1Unstructured, amount=10)
    masks = np.concatenate([m.weight_mask.numpy().ravel() for m in (one, other)])
    np.testing.assert_array_equal(np.flatnonzero(masks == 0), np.sort(np.argsort(values)[:10]))
    module = layer(rng, 2, 2)
    prune.l1_unstructured(module, "weight", 1, importance_scores=weft.tensor([[4.0, 3.0], [1.0, 2.0]]))
    assert module.weight_mask.tolist() == [[1, 1], [0, 1]]
    prune.custom_from_mask(module, "weight", weft.tensor([[0, 1], [1, 1]]))
    assert module.weight_mask.tolist() == [[0, 1], [0, 1]]
    assert prune.L1Unstructured(2).prune(weft.tensor([3.0, -1.0, 2.0])).tolist() == [3, 0, 0]


@pytest.mark.parametrize("mode", ["eager", "compile", "split"])
def test_training_keeps_what_is_pruned_at_zero(rng: RNG, mode: str) -> None:
    module = layer(rng, 3, 4)
    prune.l1_unstructured(module, "weight", 0.5)
    before = module.weight_orig.detach().clone()
    optimizer = weft.optim.SGD(module.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = module(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss

    run = step if mode == "eager" else weft.compile(step, split=mode == "split")
    for rows in (2, 2, 3, 5):
        x = weft.from_numpy(rng.normal(size=(rows, 4))).float()
        right = (x @ (module.weight_orig * module.weight_mask).T + module.bias).pow(2).sum()
        assert weft.allclose(run(x), right)
    gone = module.weight_mask == 0
    assert weft.equal(module.weight_orig[gone], before[gone])
    assert not weft.equal(module.weight_orig[~gone], before[~gone])


def test_bad_arguments_leave_the_module_as_it_was(rng: RNG) -> None:
    module = layer(rng, 3, 4)
    for problem, call in (
        ("amount", lambda: prune.l1_unstructured(module, "weight", "much")),
        ("amount=1.5", lambda: prune.l1_unstructured(module, "weight", 1.5)),
        ("amount=-1", lambda: prune.random_unstructured(module, "weight", -1)),
        ("amount=13", lambda: prune.l1_unstructured(module, "weight", 13)),
        ("Invalid index", lambda: prune.random_structured(module, "weight", 1, dim=2)),
        ("multidimensional", lambda: prune.random_structured(module, "bias", 1, dim=0)),
        ("same shape", lambda: prune.l1_unstructured(module, "weight", 1, weft.ones(2))),
        ("of shape", lambda: prune.custom_from_mask(module, "weight", weft.ones(2))),
        ("unstructured", lambda: prune.global_unstructured([(module, "weight")], prune.RandomStructured, amount=1)),
    ):
        with pytest.raises(weft.WeftError, match=problem):
            call()
        assert [n for n, _ in module.named_parameters()] == ["weight", "bias"] and not prune.is_pruned(module)
    assert list(inspect.signature(prune.ln_structured).parameters)[:5] == ["module", "name", "amount", "n", "dim"]
