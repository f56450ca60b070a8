"""`.data =` rebinds one tensor. A compiled function follows the tensors that it reads, each over whatever storage it
has at a call, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

import weft

# name: (what is there, the function, what happens before the second call, the third ..., at most as many captures)
CASES: dict[str, tuple[str, str, tuple[str, ...], int]] = {
    "the same form": ("w = zeros(3)", "x * w", ("w.data = ones(3)", "w.data = ones(3) * 2"), 1),
    "strided, then dense": (
        "w = zeros(3)", "x * w",
        ("w.data = arange(6.)[::2]", "w.data = full((3,), 7.)", "w.data = arange(8.)[2:][::2]"), 3,
    ),
    "a view stays when its base goes": (
        "b = zeros(4); v = b[1:]", "x + v", ("b.data = ones(4) * 9", "v.data = b[:3]", "b.add_(1)"), 2
    ),
    "detached": ("w = zeros(3)", "x * w.detach()", ("w.data = ones(3)", "w.data = ones(3) * 2"), 1),
    "the value of .data": ("w = zeros(3)", "x * w.data", ("w.data = ones(3)", "w.data = ones(3) * 2"), 1),
    "detached and returned": ("w = zeros(3)", "w.detach()", ("w.data = ones(3)", "w.data = ones(3) * 2"), 1),
    "a returned view": ("w = zeros(3)", "w[1:]", ("w.data = ones(3)", "w.data = ones(3) * 2"), 1),
    "only its size is read": ("w = zeros(3)", "x * w.shape[0]", ("w.data = ones(4)", "w.data = ones(5)"), 3),
    "only its strides are read": ("w = zeros(3)", "x * w.stride(0)", ("w.data = ones(6)[::2]", "w.data = ones(3)"), 2),
    "only its place is read": (
        "w = zeros(3)", "x * w.storage_offset()", ("w.data = ones(6)[2:5]", "w.data = ones(3)"), 2
    ),
    "only its dtype is read": ("w = zeros(3)", "x * w.itemsize", ("w.data = ones(3).double()", "w.data = ones(3)"), 2),
    "read from a list": ("w = zeros(3); L = [w]", "x * sum(p.numel() for p in L)", ("w.data = ones(4)",), 2),
    "two tensors come to share": (
        "w = zeros(3); v = zeros(3)", "(w.add_(1), x * v)[1]",
        ("w.data = v", "w.data = zeros(3)", "v.data = zeros(3)"), 2,
    ),
    "two tensors part": (
        "w = zeros(3); v = zeros(3); v.data = w", "(w.add_(1), x * v)[1]",
        ("w.data = zeros(3)", "v.data = w.detach()", "w.add_(3)"), 2,
    ),
    "a base and its view part": (
        "b = zeros(3); w = b[:]", "(w.add_(1), x * b)[1]",
        ("w.data = zeros(3)", "b.data = w", "b.data = zeros(3)[:]"), 2,
    ),
    "a row of a base": (
        "b = zeros(6); w = b.view(2, 3)[1]", "(w.add_(x), b * 1)[1]",
        ("b.data = zeros(6)", "w.data = b[:3]", "b.data = b[:]"), 3,
    ),
    "written after it moved": (
        "w = zeros(6)[::2]", "(w.add_(x), w * 1)[1]", ("w.data = full((3,), 7.)", "w.data = full((3,), 5.)"), 2
    ),
    "a strided gradient": (
        "w = zeros(3, requires_grad=True); w.grad = ones(3)", "x * w.grad",
        ("w.grad = arange(6.)[::2]", "w.grad = arange(6.)[3:]"), 3,
    ),
    "a strided gradient at first": (
        "w = zeros(3, requires_grad=True); w.grad = arange(6.)[::2]", "x * w.grad",
        ("w.grad = ones(6)[::2]", "w.grad = ones(3)"), 2,
    ),
    "two leaves share a gradient": (
        "w = zeros(3, requires_grad=True); v = zeros(3, requires_grad=True); w.grad = ones(3); v.grad = w.grad",
        "(w.grad.add_(1), x * v.grad)[1]",
        ("w.grad = ones(3)", "v.grad = ones(3)", "w.grad = v.grad"), 2,
    ),
    "a gradient has a name": (
        "w = zeros(3, requires_grad=True); w.grad = ones(3); g = w.grad", "(g.add_(1), x * w.grad)[1]",
        ("w.grad = ones(3)", "w.grad = g"), 2,
    ),
    "a gradient is added to, and seen": (
        "w = zeros(3, requires_grad=True); w.grad = ones(3); g = w.grad", "((x * w).sum().backward(), x * g)[1]",
        ("w.grad = ones(3)", "w.grad = g", "g.add_(1)"), 2,
    ),
    "a gradient is added to, and seen later": (
        "w = zeros(3, requires_grad=True); w.grad = ones(3); g = ones(3)",
        "((x * w).sum().backward(), x * g + w.grad)[1]",
        ("w.grad = g", "w.grad = ones(3)", "w.grad = None"), 3,
    ),
    "two leaves come to share a gradient": (
        "w = zeros(3, requires_grad=True); v = zeros(3, requires_grad=True); w.grad = ones(3); v.grad = ones(3)",
        "((x * w + 2 * v).sum().backward(), w.grad + 10 * v.grad)[1]",
        ("w.grad = v.grad", "v.grad = w.grad[:]", "w.grad = None"), 3,
    ),
}


def _run(name: str, is_compiled: bool) -> tuple[list[Any], int]:
    made, body, changes, _ = CASES[name]
    scope = {n: getattr(weft, n) for n in ("zeros", "ones", "full", "arange")}
    exec(f"{made}\ndef step(x):\n    return {body}", scope)
    step: Any = weft.compile(scope["step"]) if is_compiled else scope["step"]
    before, seen = weft.counters.captures, []
    for change in ("", *changes):
        exec(change, scope)
        with weft.no_grad() if "grad" not in made else weft.enable_grad():
            seen.append(step(weft.ones(3)).detach().tolist())
        seen.append([scope[n].detach().tolist() for n in ("w", "v", "b", "g") if n in scope])
    return seen, weft.counters.captures - before


@pytest.mark.parametrize("name", CASES)
def test_compiled_follows(name: str) -> None:
    expected, _ = _run(name, False)
    found, captures = _run(name, True)
    assert found == expected
    assert captures <= CASES[name][3]


def test_parameters_in_one_vector() -> None:
    """Twice vector_to_parameters: the second time the parameters lie as they did, in another vector,
    and nothing is captured."""
    m = weft.nn.Linear(3, 2)
    compiled = weft.compile(m)
    x = weft.ones(3)
    compiled(x)
    vector = weft.nn.utils.parameters_to_vector(m.parameters()).detach()
    captures = weft.counters.captures
    for factor in (1.0, 2.0, 3.0):
        weft.nn.utils.vector_to_parameters(vector * 0 + factor, m.parameters())
        assert compiled(x).tolist() == m(x).tolist() == [4 * factor] * 2
    assert weft.counters.captures == captures + 1


def test_training_goes_where_the_parameter_is() -> None:
    w = weft.nn.Parameter(weft.ones(6)[::2])
    optimizer = weft.optim.SGD([w], lr=0.5)

    @weft.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        (x * w).sum().backward()
        optimizer.step()
        return w.detach() * 1

    for value, stride in ((1.0, 2), (7.0, 1), (3.0, 1), (2.0, 2)):
        w.data = weft.full((3 * stride,), value)[::stride]
        assert step(weft.ones(3)).tolist() == w.tolist() == [value - 0.5] * 3


def test_memory_of_arguments_and_state() -> None:
    """A parameter comes to lie in an argument's memory, or leaves it."""
    w = weft.zeros(3)

    @weft.compile
    def step(x: Any) -> Any:
        w.add_(1)
        return x * 1

    x = weft.zeros(3)
    assert step(x).tolist() == [0.0] * 3
    w.data = x
    assert step(x).tolist() == [1.0] * 3
    w.data = weft.zeros(3)
    assert step(x).tolist() == [1.0] * 3
    assert w.tolist() == [1.0] * 3


@pytest.mark.parametrize("backend", ["llvm", "numpy", "interpret"])
def test_a_gradient_that_is_zeroed_and_made_anew(backend: str) -> None:
    """Its bytes are an input of the program, so the new one must have others."""
    found = []
    for is_compiled in (False, True):
        w, target = weft.nn.Parameter(weft.arange(36.0).view(6, 6) / 36), weft.tensor([0, 3])

        def step(x: Any, w: Any = w, target: Any = target) -> None:
            if w.grad is not None:
                w.grad.zero_()
            w.grad = None
            weft.nn.functional.cross_entropy(x @ w.t(), target).backward()

        run = weft.compile(step, backend=backend) if is_compiled else step
        x = weft.arange(12.0).view(2, 6) / 7
        for given in (None, None, 1.0, 2.0):
            if given is not None:
                w.grad = weft.full_like(w, given)
            run(x)
            assert w.grad is not None
            found.append(w.grad.detach())
    for eager, compiled in zip(found[:4], found[4:], strict=True):
        assert weft.allclose(eager, compiled, atol=1e-6)
