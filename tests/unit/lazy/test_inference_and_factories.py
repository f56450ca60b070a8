"""Inference mode on every device, and factories on other devices under transforms."""

import pytest

import weft
from weft import lazy

DEVICES = ("cpu", "lazy", "meta")


@pytest.mark.parametrize("device", DEVICES)
def test_what_inference_mode_makes_is_marked(device):
    normal = weft.ones(4, device=device)
    with weft.inference_mode():
        x = weft.zeros(4, device=device)
        made = [x, x + 1, x[1:], weft.tensor([1.0], device=device), weft.rand(3, device=device), weft.ones_like(x)]
        made += [x.to(weft.float64), weft.tensor([1.0]).to(device), weft.max(x, 0)[0], *weft.split(x + 1, 2)]
        older = [normal[1:], normal.add_(1), normal.detach(), normal.contiguous()]
    assert all(t.is_inference() for t in made)
    assert not any(t.is_inference() for t in older)
    assert not normal.is_inference()


@pytest.mark.parametrize("device", DEVICES)
def test_inference_tensors_are_refused_outside(device):
    with weft.inference_mode():
        x = weft.zeros(4, device=device)
        x.view(2, 2)[0].add_(1)
    for act in (lambda: x.add_(1), lambda: x.view(2, 2).add_(1), lambda: x.t_(), lambda: x.copy_(x + 1)):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            act()
    with weft.no_grad(), pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        weft.ones(4, device=device, requires_grad=True) * x
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        x.requires_grad_()
    with pytest.raises(RuntimeError, match="do not track version counter"):
        x._version  # noqa: B018
    assert not x.clone().is_inference()


def test_aliases_in_inference_mode_on_the_lazy_device():
    with weft.inference_mode():
        x = weft.zeros(4, device="lazy")
        y = x[1:3]
        y.add_(1)
        lazy.mark_step()
        y.add_(1)
    assert x.tolist() == [0, 2, 2, 0]


def test_inference_mode_cuts_no_split_function():
    @weft.compile(split=True)
    def step(x):
        with weft.inference_mode():
            y = (x * 2).relu()
            y.view(-1)[0].add_(1)
            z = y + x
        return y, z

    y, z = step(weft.ones(3))
    assert step.cuts == {}
    assert y.is_inference() and z.is_inference()
    assert y.tolist() == [3, 2, 2]
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        y.add_(1)


@pytest.mark.parametrize("device", DEVICES)
def test_factories_under_transforms(device):
    """What a function under a transform makes on another device belongs to the transform's level."""
    x = weft.ones(3, device=device)

    def f(t):
        return weft.ones(3, device=device).mul_(t)

    assert weft.func.grad(lambda t: f(t).sum())(x).shape == (3,)
    assert weft.func.jvp(f, (x,), (x,))[1].shape == (3,)
    assert weft.func.functionalize(f)(x).shape == (3,)
    if device != "meta":
        assert weft.func.grad(lambda t: f(t).sum())(x).tolist() == [1, 1, 1]


@pytest.mark.parametrize("device", DEVICES)
def test_dispatch_modes_see_factories(device):
    from weft.utils.dispatch import WeftDispatchMode

    class Log(WeftDispatchMode):
        def __weft_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen = []
    with Log():
        made = weft.zeros(3, device=device)
    assert made.device == device
    assert len(seen) == 1
