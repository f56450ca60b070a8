"""Under weft.compile and split, a script's integers that hang on arguments or sizes wrap around at 64 bits too."""

from __future__ import annotations

import pytest

import weft

HUGE = 4611686018427387904
RESULTS = (
    f"k * {HUGE} + 3", f"x + k * {HUGE} % 7", f"x.shape[0] * {HUGE} * k // 3",
    f"weft.nonzero(x).shape[0] * {HUGE} // 3",
    f"k * {HUGE} * 2 == 0", "(k << 62) * 2", "k * k * k", f"abs(-(k * {HUGE})), min(k * {HUGE}, 5)", "k ** 41",
    f"sum([k * {HUGE}, k])", f"int(k * 1.5) * {HUGE}", "x.shape[0] ** 45 * 7", f"divmod(k * {HUGE}, 7)",
    f"(k * {HUGE} >> 3), k * {HUGE} & 3",
)
CALLS = ((1, 3), (2, 4), (3, 5), (-5, 6), (2, 3), (1 << 40, 4))


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("mode", [{}, {"backend": "interpret"}, {"split": True}])
def test_wraps_around(result: str, mode: dict) -> None:
    f = weft.jit.CompilationUnit(f"def f(x: Tensor, k: int):\n    return {result}\n").f
    compiled = weft.compile(f, **mode)
    for k, n in CALLS:
        assert str(compiled(weft.ones(n), k)) == str(f(weft.ones(n), k))


def test_loop_whose_integers_wrap() -> None:
    f = weft.jit.CompilationUnit(
        "def f(x: Tensor, k: int):\n    z = k\n    for i in range(k):\n"
        "        z = z * 6364136223846793005 + i\n    return z\n"
    ).f
    compiled = weft.compile(f)
    assert [compiled(weft.ones(2), k) for k in (3, 4, 9)] == [f(weft.ones(2), k) for k in (3, 4, 9)]


def test_small_integers_share_a_program() -> None:
    f = weft.jit.CompilationUnit("def f(x: Tensor, k: int):\n    return x * ((k * k + 3 * k) % 1000 - k // 2)\n").f
    compiled = weft.compile(f)
    for k in (1, 2, 5, 70, -9, 1000):
        assert compiled(weft.ones(2), k).tolist() == f(weft.ones(2), k).tolist()
    assert len(compiled.entries) == 2  # the first call's number, and any
