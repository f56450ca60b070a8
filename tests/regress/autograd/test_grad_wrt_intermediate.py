"""autograd.grad by a value in the middle of a history looks at nothing that is older than the value."""

import contextlib

import pytest

import weft
from weft.autograd.node import Node
from weft.tensor.history import AutogradState


class Old(Node):
    """A node that says when its edges are read."""

    def __init__(self, edges):
        self.reads = 0
        super().__init__(edges)
        self.metadata_of_inputs = (None,)

    @property
    def edges(self):
        self.reads += 1
        return self._edges

    @edges.setter
    def edges(self, edges):
        self._edges = edges

    def apply(self, grads, needs):
        return grads


def _with_old_node():
    x = weft.tensor([2.0, 3.0], requires_grad=True)
    y = (x * 1).detach()
    node = Old((weft.autograd.graph.get_gradient_edge(x * 1),))
    y._autograd = AutogradState(False, node, 0)
    return x, y, node


@pytest.fixture(params=["engine", "compiled autograd"])
def block(request):
    return contextlib.nullcontext if request.param == "engine" else weft.compiled_autograd.enable


def test_what_is_older_is_not_looked_at(block):
    _, y, node = _with_old_node()
    q = y * 2
    reads = node.reads
    for _ in range(3):
        with block():
            (gradient,) = weft.autograd.grad((q * q).sum(), q, create_graph=True)
        assert gradient.tolist() == [8.0, 12.0]
        q = q - 0.5 * gradient + 2 * y
    assert node.reads == reads


def test_a_leaf_behind_it_is_still_reached(block):
    for _ in range(3):
        x, y, node = _with_old_node()
        q = y * 2
        with block():
            by_q, by_x = weft.autograd.grad((q * q).sum(), [q, x])
        assert by_q.tolist() == [8.0, 12.0] and by_x.tolist() == [16.0, 24.0] and node.reads


def test_a_wanted_value_beside_another_way(block):
    for size in (2, 2, 3, 2):
        x = weft.arange(1.0, 1 + size).requires_grad_()
        heard = []
        a = x * 2
        a.register_hook(lambda g, heard=heard: heard.append(g.tolist()))
        b = a * a
        c = b * a
        with block():
            by_b, by_c = weft.autograd.grad(c.sum() + (b * 3).sum(), [b, c])
            assert heard == []
        assert by_c.tolist() == [1.0] * size and by_b.tolist() == [2.0 * i + 3 for i in range(1, 1 + size)]


def test_a_root_that_does_not_lead_there(block):
    for n in (3, 3, 4, 3):
        x, z = weft.ones(n, requires_grad=True), weft.ones(n, requires_grad=True)
        y = x * 3
        with block():
            assert weft.autograd.grad([(y * 2).sum(), (z * 2).sum()], y)[0].tolist() == [2.0] * n
            assert weft.autograd.grad((z * 2).sum(), y, allow_unused=True) == (None,)
            y2 = x * 3
            (y2 * 2 + z).sum().backward(inputs=[y2])
        assert y2.grad.tolist() == [2.0] * n and x.grad is None and z.grad is None


def test_a_function_that_gives_more_than_is_wanted(block):
    class Both(weft.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g * 2, g * 3

    for n in (3, 3, 4, 3):
        x = weft.ones(n, requires_grad=True)
        a, b = x * 1, x * 1
        with block():
            (gradient,) = weft.autograd.grad(Both.apply(a, b).sum(), b)
        assert gradient.tolist() == [3.0] * n


def test_compiled_steps():
    def steps(q):
        for _ in range(4):
            (force,) = weft.autograd.grad((q * q).sum(), q, create_graph=True)
            q = q - 0.1 * force
        return q

    compiled = weft.compile(steps)
    for n in (3, 3, 5, 3):
        expected, found = [weft.linspace(1, 2, n, requires_grad=True) for _ in "ab"]
        steps(expected * 1).sum().backward()
        compiled(found * 1).sum().backward()
        assert found.grad.tolist() == pytest.approx(expected.grad.tolist())
