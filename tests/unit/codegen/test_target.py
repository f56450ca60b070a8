"""Targets: what this machine offers, what WEFT_CPU may ask for, what other machines get."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.codegen.compiler import CodegenError, compile_assembly, compile_object, object_key
from weft.codegen.target import X86_LEVELS, aarch64_target, host_target, x86_target
from weft.support.counters import counters
from weft.support.errors import ValueProblem
from weft.support.knobs import knobs

ROOT = Path(__file__).resolve().parents[3]
FMA = (
    "declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)\n"
    "define <4 x float> @f(<4 x float> %a, <4 x float> %b) nounwind {\n"
    "  %r = call <4 x float> @llvm.fma.v4f32(<4 x float> %a, <4 x float> %b, <4 x float> %a)\n  ret <4 x float> %r\n}"
)
MUL_ADD = (
    "define <4 x float> @f(<4 x float> %a, <4 x float> %b) nounwind {\n"
    "  %p = fmul <4 x float> %a, %b\n  %r = fadd <4 x float> %p, %a\n  ret <4 x float> %r\n}"
)


def test_levels_differ_in_width_registers_and_fma() -> None:
    facts = {
        level: (t.vector_bytes, t.vector_registers, t.has_fma) for level in X86_LEVELS for t in [x86_target(level)]
    }
    assert facts == {
        "x86-64": (16, 16, False),
        "x86-64-v2": (16, 16, False),
        "x86-64-v3": (32, 16, True),
        "x86-64-v4": (64, 32, True),
    }
    assert (
        x86_target("x86-64-v3").lanes(4) == 8 and x86_target("x86-64").lanes(4) == 4 and aarch64_target().lanes(8) == 2
    )


def test_the_host_is_at_least_its_own_baseline() -> None:
    target = host_target()
    assert target.vector_bytes in (16, 32, 64)
    assert host_target() is target


def test_unknown_levels_are_refused() -> None:
    with knobs(cpu="pentium"), pytest.raises(ValueProblem, match=r"WEFT_CPU=pentium.*native"):
        host_target()
    with pytest.raises(ValueProblem, match="no level"):
        x86_target("x86-64-v9")


@pytest.mark.skipif(not host_target().is_x86, reason="x86 levels")
@pytest.mark.parametrize("level, lanes", [("x86-64-v3", 8), ("x86-64", 4)])
def test_the_environment_lowers_the_target(level: str, lanes: int) -> None:
    code = "from weft.codegen.target import host_target; t = host_target(); print(t.lanes(4), t.cpu)"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "WEFT_CPU": level}
    if level == "x86-64-v3" and host_target().vector_bytes < 32:
        pytest.skip("this machine has no AVX2")
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert out.split() == [str(lanes), level]


def test_fma_is_fused_only_on_request() -> None:
    """llvm.fma becomes one instruction where there is one; a plain product and sum never does."""
    assert "vfmadd" in compile_assembly(FMA, x86_target("x86-64-v3"))
    assert "fmla" in compile_assembly(FMA, aarch64_target())
    assert "fmaf" in compile_assembly(FMA, x86_target("x86-64"))  # a library call: slow and right
    assert "vfmadd" not in compile_assembly(MUL_ADD, x86_target("x86-64-v4"))
    plain = compile_assembly(MUL_ADD, aarch64_target())
    assert "fmul" in plain and "fmla" not in plain and "fmadd" not in plain


def test_wide_vectors_are_used_where_the_cpu_model_would_rather_not() -> None:
    text = (
        "define <16 x float> @f(<16 x float> %a) nounwind {\n  %r = fadd <16 x float> %a, %a\n  ret <16 x float> %r\n}"
    )
    assert "zmm" in compile_assembly(text, x86_target("x86-64-v4"))
    if host_target().vector_bytes == 64:
        assert "zmm" in compile_assembly(text, host_target())


def test_compiles_are_counted() -> None:
    before = counters.llvm_compiles
    compile_object(MUL_ADD, host_target())
    assert counters.llvm_compiles == before + 1


def test_refused_text_is_quoted_with_its_function() -> None:
    good = "define void @good() {\n  ret void\n}\n"
    with pytest.raises(CodegenError, match=r"(?s)does not parse.*define i64 @bad.*> +\d+   ret i64 %nothing") as caught:
        compile_object(good + "define i64 @bad() {\n  ret i64 %nothing\n}\n", host_target())
    assert "@good" not in str(caught.value)
    broken = good + (
        "define i64 @late(i1 %c) {\n  br i1 %c, label %a, label %b\n"
        "a:\n  %x = add i64 1, 2\n  br label %b\nb:\n  ret i64 %x\n}\n"
    )
    with pytest.raises(CodegenError, match=r"(?s)does not verify.*define i64 @late") as caught:
        compile_object(broken, host_target())
    assert "@good" not in str(caught.value)


def test_keys_tell_texts_and_targets_apart() -> None:
    keys = {
        object_key(text, target)
        for text in (FMA, MUL_ADD)
        for target in (host_target(), x86_target("x86-64"), aarch64_target())
    }
    assert len(keys) == 6
    assert object_key(FMA, host_target()) == object_key(FMA, host_target())


def test_importing_the_code_generator_does_not_import_llvmlite() -> None:
    code = "import sys, weft.codegen.native, weft.runtime.pool; print('llvmlite' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert out.strip() == "False"
