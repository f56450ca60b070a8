"""A view of a normal tensor that a compiled call makes in inference mode: a normal tensor with its base's flag, as in
eager mode, and its base stays one, too."""

import pytest

import weft


def facts(t: weft.Tensor) -> tuple[bool, ...]:
    return t.is_inference(), t.requires_grad, t.is_leaf, t._is_view()


def shapes(x: weft.Tensor):
    return x[1:], x.view(2, 2), x.expand(2, 4), x * 2


@pytest.mark.parametrize("wants", [False, True])
def test_compiled_function_in_inference_mode(wants: bool) -> None:
    step = weft.compile(shapes)
    for _ in range(3):
        x = weft.ones(4, requires_grad=wants)
        with weft.inference_mode():
            views, expected = step(x), shapes(x)
        assert [facts(v) for v in views] == [facts(v) for v in expected]
        assert not x.is_inference()
        (x * x).sum()  # saved for a backward, which an inference tensor cannot be


def test_base_still_has_a_backward() -> None:
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    with weft.inference_mode():
        weft.compile(lambda x: x[:1])(x)
    (grad,) = weft.autograd.grad((x * x).sum(), x)
    assert grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("wants", [False, True])
def test_inference_mode_within_a_compiled_function(wants: bool) -> None:
    def body(x: weft.Tensor):
        with weft.inference_mode():
            view = x[1:]
        return view, (view * x[1:]).sum()

    step = weft.compile(body)
    for _ in range(3):
        x = weft.ones(4, requires_grad=wants)
        view, loss = step(x)
        expected, plain = body(x)
        assert facts(view) == facts(expected)
        assert facts(loss) == facts(plain)
        with pytest.raises(RuntimeError, match="created in inference mode") if wants else weft.no_grad():
            view.add_(1)
