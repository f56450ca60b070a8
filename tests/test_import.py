"""`import weft` loads what every program needs and no more."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "llvmlite", "ml_dtypes", "safetensors", "rich", "matplotlib", "ctypes.wintypes", "inspect",
    "weft.codegen", "weft.compile", "weft.nn", "weft.optim", "weft.func", "weft.autograd.functional",
    "weft.autograd.gradient_checks", "weft.interop", "weft.sparse",
)


def loaded_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_what_importing_weft_leaves_out() -> None:
    beside_numpy = set(HEAVY) - loaded_after("import dataclasses, numpy")  # dataclasses takes inspect with it
    assert not beside_numpy & loaded_after("import weft")


@pytest.mark.parametrize("code", [
    "import weft.autograd.gradient_checks; import weft; assert weft.autograd.gradcheck(lambda x: x * x, "
    "weft.ones(2, dtype=weft.float64, requires_grad=True))",
    "from weft.autograd import functional; import weft; assert weft.autograd.functional is functional",
    "from weft.autograd import gradcheck, forward_ad, graph, forward, Variable, GradcheckError",
    "import weft; x = weft.ones(2, dtype=weft.bfloat16); assert weft.matmul(x, x).item() == 2",
])
def test_what_is_left_out_comes_when_asked_for(code: str) -> None:
    loaded_after(code)


def test_no_class_of_wefts_own_takes_calls_over() -> None:
    """Once one does, every public call and every compiled call looks for it: only programs that have such
    a class should pay."""
    assert "weft.sparse" not in loaded_after(
        "import weft.nn, weft.optim, weft.func, weft.utils.data, weft.compile.driver\nfrom weft.ops import overrides\n"
        "assert not overrides.override_classes, overrides.override_classes"
    )
