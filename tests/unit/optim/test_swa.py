"""Averaged models, their learning rate, and running statistics computed anew, against the definitions."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import weft
from weft import nn
from weft.optim import swa_utils
from weft.optim.swa_utils import SWALR, AveragedModel, update_bn


def walk(average: AveragedModel, rng: np.random.Generator, steps: int = 6) -> list[np.ndarray]:
    """Move a model's first weight about, and take each place into the average."""
    model = copy.deepcopy(average.module)
    seen = []
    for _ in range(steps):
        with weft.no_grad():
            for p in model.parameters():
                p.copy_(weft.from_numpy(rng.normal(size=tuple(p.shape))))
        seen.append(model[0].weight.detach().numpy().copy())
        average.update_parameters(model)
    return seen


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()


@pytest.mark.parametrize("avg", [None, "avg_fn", "multi_avg_fn"])
def test_the_average_is_the_mean(avg: str | None, rng: np.random.Generator) -> None:
    options = {} if avg is None else {avg: getattr(swa_utils, f"get_swa_{avg}")()}
    average = AveragedModel(model(), **options)
    seen = walk(average, rng)
    np.testing.assert_allclose(average.module[0].weight.detach().numpy(), np.mean(seen, 0), rtol=1e-12)
    assert average.n_averaged.item() == len(seen) and "n_averaged" in average.state_dict()
    x = weft.randn(5, 3, dtype=weft.float64)
    assert weft.equal(average.eval()(x), average.module(x))


@pytest.mark.parametrize("avg", ["avg_fn", "multi_avg_fn"])
def test_an_exponential_average_forgets(avg: str, rng: np.random.Generator) -> None:
    decay = float(rng.uniform(0.5, 0.9))
    average = AveragedModel(model(), **{avg: getattr(swa_utils, f"get_ema_{avg}")(decay)}, use_buffers=True)
    seen = walk(average, rng)
    want = seen[0]
    for place in seen[1:]:
        want = decay * want + (1 - decay) * place
    np.testing.assert_allclose(average.module[0].weight.detach().numpy(), want, rtol=1e-12)
    with pytest.raises(ValueError, match="decay"):
        swa_utils.get_ema_avg_fn(1.5)


def test_buffers_follow_the_model_unless_averaged(rng: np.random.Generator) -> None:
    source = model()
    for use_buffers in (False, True):
        average = AveragedModel(source, use_buffers=use_buffers)
        seen = []
        for _ in range(3):
            source(weft.from_numpy(rng.normal(size=(6, 3))))
            seen.append(source[1].running_mean.numpy().copy())
            average.update_parameters(source)
        np.testing.assert_allclose(
            average.module[1].running_mean.numpy(), np.mean(seen, 0) if use_buffers else seen[-1], rtol=1e-12
        )


def test_running_statistics_anew(rng: np.random.Generator) -> None:
    source = nn.Sequential(nn.BatchNorm1d(3, momentum=0.3)).double().eval()
    batches = [rng.normal(size=(int(n), 3)) for n in rng.integers(3, 9, 4)]
    update_bn(((weft.from_numpy(b), "label") for b in batches), source)
    np.testing.assert_allclose(source[0].running_mean.numpy(), np.mean([b.mean(0) for b in batches], 0), rtol=1e-12)
    np.testing.assert_allclose(
        source[0].running_var.numpy(), np.mean([b.var(0, ddof=1) for b in batches], 0), rtol=1e-12
    )
    assert source[0].momentum == 0.3 and not source.training


@pytest.mark.parametrize("strategy", ["linear", "cos"])
def test_the_rate_goes_to_its_final_value(strategy: str) -> None:
    opt = weft.optim.SGD(
        [{"params": [nn.Parameter(weft.zeros(1))]}, {"params": [nn.Parameter(weft.zeros(1))], "lr": 0.5}], lr=0.1
    )
    scheduler = SWALR(opt, [0.01, 0.02], anneal_epochs=4, anneal_strategy=strategy)
    for step in range(1, 8):
        opt.step()
        scheduler.step()
        t = min(1.0, step / 4)
        share = t if strategy == "linear" else (1 - math.cos(math.pi * t)) / 2
        assert [g["lr"] for g in opt.param_groups] == pytest.approx([
            0.1 + share * (0.01 - 0.1), 0.5 + share * (0.02 - 0.5)
        ])
    other = SWALR(weft.optim.SGD([nn.Parameter(weft.zeros(1))], lr=0.1), 0.05, anneal_epochs=0)
    assert other.get_last_lr() == pytest.approx([0.1]) or other.get_last_lr() == pytest.approx([0.05])
    for options in ({"anneal_strategy": "square"}, {"anneal_epochs": -1}, {"swa_lr": [0.1, 0.2, 0.3]}):
        with pytest.raises(ValueError):
            SWALR(opt, **{"swa_lr": 0.1, **options})


def test_muon_moves_along_an_orthogonal_matrix(rng: np.random.Generator) -> None:
    start, gradient = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    p = nn.Parameter(weft.from_numpy(start.copy()))
    opt = weft.optim.Muon([p], lr=0.1, weight_decay=0.0)
    p.grad = weft.from_numpy(gradient)
    opt.step()
    u, _, v = np.linalg.svd(gradient, full_matrices=False)
    moved = (start - p.detach().numpy()) / (0.1 * math.sqrt(5 / 3))
    sizes = np.linalg.svd(moved, compute_uv=False)
    assert sizes.min() > 0.5 and sizes.max() < 1.4  # the iterations bring singular values near 1, not to it
    assert (moved * (u @ v)).sum() > 0.9 * np.linalg.norm(moved) * np.linalg.norm(u @ v)
    with pytest.raises(ValueError, match="2D"):
        weft.optim.Muon([nn.Parameter(weft.zeros(3))])


def test_lbfgs_moves_complex_parameters(rng: np.random.Generator) -> None:
    target = rng.normal(size=(3, 2)) + 1j * rng.normal(size=(3, 2))
    z = nn.Parameter(weft.from_numpy(np.zeros_like(target)))
    opt = weft.optim.LBFGS([z], line_search_fn="strong_wolfe")

    def closure() -> weft.Tensor:
        opt.zero_grad()
        loss = ((z - weft.from_numpy(target)).abs() ** 2 * (1 + weft.arange(2))).sum()
        loss.backward()
        return loss

    for _ in range(3):
        opt.step(closure)
    np.testing.assert_allclose(z.detach().numpy(), target, atol=1e-4)


def test_names_and_betas_are_given_for_all_or_none() -> None:
    p, q = nn.Parameter(weft.zeros(1)), nn.Parameter(weft.zeros(1))
    with pytest.raises(ValueError, match="with/without names"):
        weft.optim.SGD([("p", p), q])
    with pytest.raises(ValueError, match="with/without names"):
        weft.optim.SGD([{"params": [("p", p)]}, {"params": [q]}])
    with pytest.raises(ValueError, match="both floats or both Tensors"):
        weft.optim.Adam([p], betas=(0.9, weft.tensor(0.99)))
