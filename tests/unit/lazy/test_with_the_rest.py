"""Lazy tensors in the hands of the rest of the library: files, optimizers' states, transforms, compiled functions."""

from __future__ import annotations

import io

import numpy as np
import pytest

import weft
from weft import lazy, nn


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_files_keep_the_device_and_what_is_shared(order):
    x = weft.arange(6, device="lazy").float().view(2, 3)
    base = x.permute(order) * 1  # in memory as its source lies
    part = base.t()[1:]
    part.add_(1)
    file = io.BytesIO()
    weft.save({"base": base, "part": part, "leaf": weft.ones(2, device="lazy", requires_grad=True)}, file)
    file.seek(0)
    found = weft.load(file)
    assert all(t.device.type == "lazy" for t in found.values()) and found["leaf"].requires_grad
    assert found["base"].stride() == base.stride() and found["part"].stride() == part.stride()
    np.testing.assert_array_equal(found["base"].numpy(), base.numpy())
    found["part"].zero_()
    lazy.mark_step()
    assert not found["base"].t()[1:].any() and found["base"].t()[0].tolist() == base.t()[0].tolist()
    file.seek(0)
    assert weft.load(file, map_location="cpu")["part"].device.type == "cpu"


@pytest.mark.parametrize("kind", ["Adam", "SGD", "Adagrad"])
def test_an_optimizers_state_moves_to_the_parameters_device(kind):
    options = {"momentum": 0.9} if kind == "SGD" else {}
    weft.manual_seed(1)
    models, optimizers = {}, {}

    def step(name):
        optimizers[name].zero_grad()
        x = weft.ones(2, 3, device=models[name].weight.device)
        models[name](x).square().sum().backward()
        optimizers[name].step()

    state = nn.Linear(3, 2).state_dict()
    for name, device in (("straight", "cpu"), ("there", "lazy"), ("back", "cpu")):
        models[name] = nn.Linear(3, 2).to(device)
        optimizers[name] = getattr(weft.optim, kind)(models[name].parameters(), lr=0.1, **options)
    models["straight"].load_state_dict(state)
    models["there"].load_state_dict(state)
    for _ in range(4):
        step("straight")
    step("there")
    step("there")
    lazy.mark_step()
    models["back"].load_state_dict(models["there"].state_dict())
    optimizers["back"].load_state_dict(optimizers["there"].state_dict())
    step("back")
    models["there"].load_state_dict(models["back"].state_dict())
    optimizers["there"].load_state_dict(optimizers["back"].state_dict())
    step("there")
    np.testing.assert_allclose(
        models["there"].weight.detach().cpu().numpy(), models["straight"].weight.detach().numpy(), rtol=1e-5
    )


def test_compiled_functions_take_lazy_tensors():
    """They are traced as they are written: into the program of the step."""
    function = weft.compile(lambda t, w: (t.add_(1) * w).sin().sum())
    results = []
    for device in ("lazy", "cpu", "lazy"):
        x = weft.arange(6, device=device).float()
        w = weft.full((4,), 0.5, device=device, requires_grad=True)
        loss = function(x[2:], w)
        loss.backward()
        assert loss.device.type == device
        results.append([loss.item(), *x.tolist(), *w.grad.tolist()])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)
    np.testing.assert_allclose(results[2], results[1], rtol=1e-5)


TRANSFORMS = {
    "jacrev": lambda x: weft.func.jacrev(lambda t: t**2)(x), "jacfwd": lambda x: weft.func.jacfwd(weft.sin)(x),
    "hessian": lambda x: weft.func.hessian(lambda t: (t**3).sum())(x),
    "two outputs": lambda x: weft.func.jacrev(lambda t: (t.sum(), t * 2))(x)[1],
    "take": lambda x: weft.func.vmap(lambda t: t[[1, 0]].sort()[0].cumsum(0))(x.view(2, -1)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_make_their_constants_on_the_device(name):
    x = weft.tensor([0.3, -1.2, 2.0, 0.7])
    found, wanted = TRANSFORMS[name](x.to("lazy")), TRANSFORMS[name](x)
    assert found.device.type == "lazy"
    np.testing.assert_allclose(found.cpu().numpy(), wanted.numpy(), rtol=1e-6)


def test_what_others_show_grows_for_all():
    """As in eager mode: a storage with a view, an alias of `detach`, or one of `.data`."""
    for alias in (lambda t: t.view(2, 3), lambda t: t.detach(), lambda t: t.data):
        for device in ("lazy", "cpu"):
            x = weft.arange(6, device=device).float()
            other = alias(x)
            x.resize_(8)
            other.add_(1)
            assert x.tolist() == [1, 2, 3, 4, 5, 6, 0, 0]
            other.resize_(9).add_(1)
            assert x.tolist() == [2, 3, 4, 5, 6, 7, 1, 1] and other.tolist() == [*x.tolist(), 1]


def test_the_version_error_names_the_write():
    messages = []
    for device in ("lazy", "cpu"):
        p = weft.ones(2, device=device, requires_grad=True)
        product = p * p
        p.detach().add_(1)
        with pytest.raises(RuntimeError) as error:
            product.sum().backward()
        messages.append(str(error.value))
    assert messages[0] == messages[1] and "the latest write is at" in messages[0]


def test_a_compiled_function_over_lazy_state_is_traced():
    """It has no lazy argument, and meets the device in what it closes over, or in a factory."""
    model = weft.nn.Linear(3, 2).to("lazy")
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)
    runs = []

    @weft.compile
    def step():
        runs.append(1)
        optimizer.zero_grad()
        loss = model(weft.ones(2, 3, device="lazy")).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    for _ in range(3):
        losses.append(step())
        lazy.mark_step()
    assert losses[0].device.type == "lazy"
    assert len(runs) == 3  # the attempt to capture it left nothing behind
    assert losses[0].item() > losses[1].item() > losses[2].item()
    weight = weft.ones(3, device="lazy")
    assert weft.compile(lambda x: x * weight.cpu())(weft.ones(3)).tolist() == [1, 1, 1]
    nothing = weft.ones(3, device="meta")
    with pytest.raises(RuntimeError, match="has no values that a compiled function could read"):
        weft.compile(lambda x: x * nothing)(weft.ones(3))
