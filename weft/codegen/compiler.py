"""LLVM text to object code: parse, verify, generate. No optimisation pipeline: the text is already vectorised."""

from __future__ import annotations

import functools
import hashlib
import re
from typing import TYPE_CHECKING, Any

from weft.codegen.target import Target
from weft.support.counters import counters
from weft.support.errors import WeftError

if TYPE_CHECKING:
    import llvmlite.binding as llvm_binding

# Level 0 (fast instruction selection) makes code up to 3.5 times slower; 3 gained nothing over 2.
CODEGEN_LEVEL = 2
_LINE = re.compile(r":(\d+):\d+: error")


class CodegenError(WeftError, RuntimeError):
    """Generated LLVM text that LLVM refuses; always a fault of weft. The message quotes the function."""


def compile_object(module_text: str, target: Target) -> bytes:
    """Position-independent object code of a text module. Raises CodegenError with the offending function's text.

    Counts one in `counters.llvm_compiles`. Plain fadd and fmul are never contracted: the text carries no fast-math
    flags and the target machine fuses on request (llvm.fma) only.
    """
    machine = _machine(target)
    module = parsed(module_text, target)
    counters.llvm_compiles += 1
    return bytes(machine.emit_object(module))


def compile_assembly(module_text: str, target: Target) -> str:
    """The same code as text, for WEFT_DEBUG=asm and for reading."""
    return str(_machine(target).emit_assembly(parsed(module_text, target)))


def object_key(module_text: str, target: Target) -> str:
    """Hex digest that names the object code of `module_text` on `target`: text, LLVM and llvmlite versions, CPU."""
    import llvmlite  # heavy: kept out of `import weft`

    return code_stamp(module_text, target, f"llvmlite {llvmlite.__version__} LLVM {llvm_version()}")


def code_stamp(module_text: str, target: Target, compiler: str) -> str:
    """Hex digest of all that object code hangs on."""
    material = "\0".join((compiler, target.key, str(CODEGEN_LEVEL), module_text))
    return hashlib.blake2b(material.encode(), digest_size=20).hexdigest()


@functools.cache
def llvm_version() -> str:
    """LLVM's version, such as 22.1.0."""
    import llvmlite.binding as llvm  # heavy: kept out of `import weft`

    return ".".join(map(str, llvm.llvm_version_info))


@functools.cache
def _machine(target: Target) -> llvm_binding.TargetMachine:
    return new_machine(target)


def new_machine(target: Target, level: int = CODEGEN_LEVEL) -> llvm_binding.TargetMachine:
    """LLVM's code generator for a target. One thread at a time may use it. level: how hard it tries, 0 to 3."""
    llvm = _initialised(target.arch)
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="default"
    )


@functools.cache
def _initialised(arch: str) -> Any:
    """llvmlite's binding module with the code generator for `arch` switched on."""
    import llvmlite.binding as llvm  # heavy: kept out of `import weft`

    if llvm.get_process_triple().split("-")[0] == arch:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        return llvm
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


def parsed(text: str, target: Target, context: Any = None) -> llvm_binding.ModuleRef:
    """A text module as LLVM has it, in LLVM's global context or another. Raises CodegenError."""
    llvm = _initialised(target.arch)
    header = "" if "target triple" in text else f'target triple = "{target.triple}"\n'
    try:
        module = llvm.parse_assembly(header + text, context)
    except RuntimeError as problem:
        raise CodegenError(_explain("parse", str(problem), header + text)) from None
    try:
        module.verify()
    except RuntimeError as problem:
        module.close()  # before its context, whatever order the garbage collector has in mind
        raise CodegenError(_explain("verify", str(problem), header + text)) from None
    return module


def _explain(stage: str, problem: str, text: str) -> str:
    return f"generated code does not {stage}: {problem.strip()}\n{_offender(problem, text)}"


def _offender(problem: str, text: str) -> str:
    """The function that `problem` is about, each line numbered; the first lines of the module if it cannot be told."""
    lines = text.split("\n")
    number = _line_number(problem, lines)
    if number is None:
        return "\n".join(lines[:20])
    start = next((i for i in range(number, -1, -1) if lines[i].startswith("define")), number)
    stop = next((i for i in range(number, len(lines)) if lines[i] == "}"), number)
    return "\n".join(f"{'>' if i == number else ' '}{i + 1:5} {lines[i]}" for i in range(start, stop + 1))


def _line_number(problem: str, lines: list[str]) -> int | None:
    """The line a parse error names, else the first line that a verifier message quotes."""
    named = _LINE.search(problem)
    if named:
        return min(int(named.group(1)), len(lines)) - 1
    quoted = {line.strip() for line in problem.split("\n")} - {""}
    return next((i for i, line in enumerate(lines) if line.strip() in quoted), None)
