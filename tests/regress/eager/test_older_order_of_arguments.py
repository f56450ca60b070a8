"""Numbers before the tensors that they scale, as programs for older PyTorch call: optimizers above all."""

import pytest

import weft

A, B = weft.arange(4.0).reshape(2, 2) + 1, weft.tensor([[0.5, -1.0], [2.0, 3.0]])
C, V = weft.tensor([[2.0, 4.0], [-1.0, 1.0]]), weft.tensor([1.0, -2.0])
M = weft.stack([A, B, C])

OLDER = {  # beside what they mean
    "add": (lambda: weft.add(A, 0.5, B), lambda: A + 0.5 * B),
    "method": (lambda: A.add(2, B), lambda: A + 2 * B),
    "add_": (lambda: A.clone().add_(0.5, B), lambda: A + 0.5 * B),
    "sub": (lambda: weft.sub(A, 0.5, B), lambda: A - 0.5 * B),
    "sub_": (lambda: A.clone().sub_(3, B), lambda: A - 3 * B),
    "addcmul": (lambda: weft.addcmul(A, 0.5, B, C), lambda: A + 0.5 * B * C),
    "addcmul_": (lambda: A.clone().addcmul_(0.5, B, B), lambda: A + 0.5 * B * B),
    "addcdiv": (lambda: weft.addcdiv(A, -2, B, C), lambda: A - 2 * B / C),
    "addcdiv_": (lambda: A.clone().addcdiv_(-0.5, B, C), lambda: A - 0.5 * B / C),
    "out": (lambda: weft.addcmul(A, 2, B, C, out=weft.empty(2, 2)), lambda: A + 2 * B * C),
    "addmm": (lambda: weft.addmm(0.5, A, 2, B, C), lambda: 0.5 * A + 2 * B @ C),
    "addmm of one": (lambda: weft.addmm(0.5, A, B, C), lambda: 0.5 * A + B @ C),
    "method of two": (lambda: A.addmm(0.5, 2, B, C), lambda: 0.5 * A + 2 * B @ C),
    "addmm_": (lambda: A.clone().addmm_(0.5, B, C), lambda: 0.5 * A + B @ C),
    "addmv": (lambda: weft.addmv(0.5, V, 2, A, V), lambda: 0.5 * V + 2 * A @ V),
    "addr": (lambda: weft.addr(0.5, A, 2, V, V), lambda: 0.5 * A + 2 * V[:, None] * V),
    "addbmm": (lambda: weft.addbmm(0.5, A, 2, M, M), lambda: 0.5 * A + 2 * (M @ M).sum(0)),
    "baddbmm_": (lambda: M.clone().baddbmm_(0.5, 2, M, M), lambda: 0.5 * M + 2 * M @ M),
}


@pytest.mark.parametrize("name", OLDER)
def test_what_it_means(name):
    older, meaning = OLDER[name]
    with pytest.warns(UserWarning, match="overload of .* is deprecated"):
        out = older()
    assert weft.allclose(out, meaning())


def step(p, grad, mean, square, beta1, beta2, lr):
    """Adam, as it was written then."""
    mean.mul_(beta1).add_(1 - beta1, grad)
    square.mul_(beta2).addcmul_(1 - beta2, grad, grad)
    p.addcdiv_(-lr, mean, square.sqrt().add_(1e-8))
    return p


@pytest.mark.filterwarnings("ignore:This overload of")
@pytest.mark.parametrize("ways", ["eager", "compiled", "lazy"])
def test_a_step_of_an_optimizer(ways):
    weft.manual_seed(0)
    p, grad, mean, square = (weft.rand(3, 2, dtype=weft.float64) for _ in range(4))
    function = weft.compile(step) if ways == "compiled" else step
    device = "lazy" if ways == "lazy" else "cpu"
    held = [t.clone().to(device) for t in (p, grad, mean, square)]
    for beta, lr in ((0.9, 0.1), (0.8, 0.3), (0.7, 0.2)):
        function(*held, beta, 0.99, lr)
        mean, square = beta * mean + (1 - beta) * grad, 0.99 * square + (1 - 0.99) * grad * grad
        p = p - lr * mean / (square.sqrt() + 1e-8)
    assert weft.allclose(held[0].cpu(), p)


@pytest.mark.parametrize("call", [
    lambda: weft.add(A, "a", B), lambda: weft.add(A, 1, 2), lambda: weft.mul(A, 2, B),
    lambda: weft.add(A, 0.5, B, alpha=2), lambda: weft.addmm(0.5, A, 1, B, 2, C), lambda: weft.add(A, None, B),
])
def test_what_it_does_not_mean(call):
    with pytest.raises(TypeError):
        call()


def test_gradients():
    a, b = A.double().requires_grad_(), B.double().requires_grad_()
    with pytest.warns(UserWarning, match="deprecated"):
        assert weft.autograd.gradcheck(lambda a, b: weft.addcmul(a, 0.5, b, b), (a, b))


@pytest.mark.filterwarnings("ignore:This overload of")
def test_a_trace():
    def f(a, b):
        return weft.addmm(0.5, weft.add(a, 0.5, b).addcmul_(2, b, b), 3, a, b)

    program = weft.jit.trace(f, (A, B))
    a, b = weft.rand(3, 3), weft.rand(3, 3)
    assert weft.allclose(program(a, b), f(a, b))
