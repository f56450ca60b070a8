"""The machine that code is generated for: triple, CPU, features, vector width and register count."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from weft.support.errors import ValueProblem
from weft.support.knobs import knobs

X86_LEVELS = {
    "x86-64": ("sse2",),
    "x86-64-v2": ("sse4.2", "popcnt"),
    "x86-64-v3": ("avx2", "fma", "bmi2", "f16c"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "fma", "f16c"),
}
AVX512 = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")


@dataclass(frozen=True)
class Target:
    """Everything that code generation asks about a machine. Equal targets give equal object code.

    triple           LLVM's name of architecture, vendor and system
    cpu              the CPU whose scheduling model is used; it never decides which instructions exist
    features         LLVM feature string; it alone decides which instructions exist ("" only for a named level)
    vector_bytes     bytes of the widest vector register worth using: 64 (AVX-512), 32 (AVX2), 16 (SSE2, NEON)
    vector_registers how many such registers there are
    has_fma          fused multiply-add is one instruction
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    vector_registers: int
    has_fma: bool

    @property
    def arch(self) -> str:
        """First part of the triple: x86_64, aarch64, ..."""
        return self.triple.split("-")[0]

    @property
    def is_x86(self) -> bool:
        return self.arch in ("x86_64", "amd64")

    def lanes(self, itemsize: int) -> int:
        """How many elements of `itemsize` bytes fill one vector register."""
        return self.vector_bytes // itemsize

    @property
    def has_f16(self) -> bool:
        """Whether float16 and float32 convert into each other by instructions."""
        return not self.is_x86 or "+f16c" in self.features or self.cpu in ("x86-64-v3", "x86-64-v4")

    @property
    def has_scale(self) -> bool:
        """Whether a vector is multiplied by powers of two in one instruction."""
        return self.is_x86 and self.vector_bytes == 64

    @property
    def key(self) -> str:
        """Text that tells this target from every other; part of the disk cache's key."""
        return f"{self.triple}|{self.cpu}|{self.features}"


def host_target() -> Target:
    """The machine that runs this process, or the lower level that WEFT_CPU (knob `cpu`) asks for.

    Raises ValueProblem for an unknown level and for one that this machine cannot run.
    """
    return _host_target(knobs.cpu)


@functools.cache
def _host_target(level: str) -> Target:
    import llvmlite.binding as llvm  # heavy: kept out of `import weft`

    triple = llvm.get_process_triple()
    present = frozenset(name for name, there in _host_features().items() if there)
    if level == "native":
        return _native_target(triple, llvm.get_host_cpu_name(), present)
    if level not in X86_LEVELS or not triple.startswith("x86_64"):
        levels = ["native", *(X86_LEVELS if triple.startswith("x86_64") else ())]
        raise ValueProblem(f"WEFT_CPU={level}: this machine ({triple}) knows {', '.join(levels)}")
    missing = [name for name in X86_LEVELS[level] if name not in present]
    if missing:
        raise ValueProblem(f"WEFT_CPU={level}: this machine lacks {', '.join(missing)}; use WEFT_CPU=native")
    return _x86_target(triple, level, "", frozenset(_implied(level)))


def _host_features() -> dict[str, bool]:
    """LLVM's features of this machine; empty where LLVM cannot tell (then the architecture's minimum is used)."""
    import llvmlite.binding as llvm  # heavy: kept out of `import weft`

    try:
        return dict(llvm.get_host_cpu_features())
    except RuntimeError:
        return {}


def _implied(level: str) -> tuple[str, ...]:
    names = list(X86_LEVELS)
    return tuple(f for name in names[: names.index(level) + 1] for f in X86_LEVELS[name])


def _native_target(triple: str, cpu: str, present: frozenset[str]) -> Target:
    # The feature map names absent features too, so a CPU name that promises more than the machine has (virtual
    # machines mask models) cannot switch an instruction on.
    flags = ",".join(("+" if there else "-") + name for name, there in sorted(_host_features().items()))
    if triple.startswith(("x86_64", "amd64")):
        return _x86_target(triple, cpu if flags else "x86-64", flags, present)
    return Target(triple, cpu if flags else "generic", flags, 16, 32, has_fma=True)


def _x86_target(triple: str, cpu: str, flags: str, present: frozenset[str]) -> Target:
    # Some CPU models are tuned for 256-bit vectors; ours are explicit, and 512 bits measured 1.3 to 1.8 times faster.
    wide = all(name in present for name in AVX512)
    flags = ",".join(filter(None, (flags, "-prefer-256-bit" if wide else "")))
    width = 64 if wide else 32 if "avx2" in present else 16
    return Target(triple, cpu, flags, width, 32 if wide else 16, has_fma="fma" in present)


def aarch64_target(system: str = "unknown-linux-gnu") -> Target:
    """ARMv8 with NEON, for emitting objects on another machine (they cannot be loaded there)."""
    return Target(f"aarch64-{system}", "generic", "+neon", 16, 32, has_fma=True)


def x86_target(level: str = "x86-64", system: str = "unknown-linux-gnu") -> Target:
    """One of the x86-64 levels, for emitting objects without asking this machine. Raises ValueProblem if unknown."""
    if level not in X86_LEVELS:
        raise ValueProblem(f"x86_target: no level {level!r}; there are {', '.join(X86_LEVELS)}")
    return _x86_target(f"x86_64-{system}", level, "", frozenset(_implied(level)))
