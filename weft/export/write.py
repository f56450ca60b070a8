"""The files of an exported step: object code, header, manifest and state."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.codegen.emit import Module
from weft.codegen.lower.graph import lower_graph
from weft.codegen.program.entry_point import POOL_BYTES, EntryPoint, emit_entry_point
from weft.codegen.program.layout import native_layout
from weft.codegen.standalone import named_target, standalone_object
from weft.codegen.target import Target
from weft.compile.driver import CompiledFunction
from weft.compile.program.entry import Entry
from weft.export.contents import MOST, Bounds, Contents
from weft.export.description import Description, Size, encode
from weft.export.header import header
from weft.plan.frame import Frame
from weft.programs.executable import Compiled
from weft.runtime.pool_ir import WITH_WORKERS
from weft.runtime.segments import Layout
from weft.support.errors import ExportError, ValueProblem
from weft.types.dims import Dim
from weft.types.relation import upper_bound
from weft.version import __version__

_LINKERS = (("cc", "-shared"), ("gcc", "-shared"), ("clang", "-shared"), ("ld", "-shared"))


@dataclass(frozen=True)
class Exported:
    """The files of an exported step. library: a shared library, where one was asked for."""

    object: Path
    header: Path
    manifest: Path
    state: Path
    description: Description
    library: Path | None = None


def export_step(
    compiled: CompiledFunction, path: str | Path, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *,
    target: str | Target = "native", threads: bool | None = None, bounds: Bounds | None = None, shared: bool = False,
) -> Exported:
    """Write a compiled step as files that need no Python: `path`.o (object code), .h (a header of C), .json (a
    manifest) and .state (parameters, buffers, the optimizer's state, gradients and generators as they are now).

    Args:
        path: where, without an ending; its last part begins the names of the C functions.
        args, kwargs: arguments for which the step is exported. Without any, the program that was used last.
        target: a name (codegen/standalone.py), or a Target.
        threads: whether the object has a worker pool; None: where the target is Linux. The results are the same.
        bounds: the least and the largest size of dims, as {"x": {0: (1, 64)}}.
        shared: write `path`.so too, with the linker that is there.

    Raises ExportError for what only Python can do, with its operator and the user's line; ValueProblem for a name or a
    target that there is not.
    """
    path, machine = Path(path), named_target(target) if isinstance(target, str) else target
    if not re.fullmatch(r"[A-Za-z]\w*", path.name, re.ASCII):
        raise ValueProblem(
            f"export: {path.name!r} begins the names of functions in C: a letter, then letters and digits"
        )
    has_pool = machine.arch in WITH_WORKERS and "linux" in machine.triple if threads is None else threads
    step = _Step(compiled, _program(compiled, args, kwargs or {}), bounds or {}, path.name, machine, has_pool)
    code = step.code()
    step.contents.state += bytes(-len(step.contents.state) % 64)
    description = step.description()
    files = _files(path)
    contents = (code, header(description).encode(), encode(description).encode(), bytes(step.contents.state))
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    return Exported(*files, description, _link(files[0]) if shared else None)


def _files(path: Path) -> tuple[Path, Path, Path, Path]:
    """Object, header, manifest and state."""
    code, header, manifest, state = [path.with_name(path.name + ending) for ending in (".o", ".h", ".json", ".state")]
    return code, header, manifest, state


def _program(compiled: CompiledFunction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Entry:
    """The program for a call, or the one that was used last."""
    if args or kwargs:
        return compiled.entry_for(tuple(args), dict(kwargs), is_own=True)[0]
    if not compiled.entries.own:
        raise ExportError(
            f"export: {compiled.name} runs in programs that it shares with other instances; give arguments, and it has "
            "one of its own: export(path, args)" if len(compiled.entries) else
            f"export: {compiled.name} has not been called yet; call it, or give arguments: export(path, args)"
        )
    return compiled.entries.own[0]


class _Step:
    """One program on its way to files."""

    def __init__(
        self, compiled: CompiledFunction, entry: Entry, bounds: Bounds, name: str, target: Target, has_pool: bool
    ) -> None:
        if not isinstance(entry.executable, Compiled) or entry.executable.backend != "llvm":
            raise ExportError(f"export: {compiled.name} runs on another back end; only native code is shipped")
        self.compiled, self.name, self.target, self.has_pool = compiled, name, target, has_pool
        self.graph = entry.executable.optimized()  # first: passes may ask about sizes
        self.contents = Contents(compiled, entry, bounds)
        unknown = set(bounds) - {a.name for a in self.contents.inputs}
        if unknown:
            names = ", ".join(a.name for a in self.contents.inputs)
            raise ValueProblem(f"export: bounds of {sorted(unknown)[0]!r}, which is no input; there are {names}")
        self.layout: Layout
        self.entry: EntryPoint
        self.arena: Dim = 0

    def code(self) -> bytes:
        """The object code."""
        module = Module.for_target(self.target)
        lowered = lower_graph(self.graph, module, self.target)
        native_layout(lowered, module, lambda frame, layout: self._add_entry(module, frame, layout))
        return standalone_object(module, self.entry.exports, self.target, workers=self.has_pool)

    def _add_entry(self, module: Module, frame: Frame, layout: Layout) -> None:
        self.entry = self.contents.entry_point(self.name, frame, layout, self.has_pool)
        self.layout, self.arena = layout, emit_entry_point(module, self.entry, frame, layout)

    def description(self) -> Description:
        """What the manifest says."""
        c, target = self.contents, self.target
        return Description(
            self.name, self.compiled.name, f"weft {__version__}", target.triple, target.cpu, target.features,
            self.has_pool, POOL_BYTES if self.has_pool else 0, self.layout.kernels, tuple(c.sizes), tuple(c.inputs),
            tuple(c.outputs), len(c.state), tuple(c.tensors), tuple(c.numbers), tuple(c.random), c.arguments,
            c.argument_leaves, c.results, c.result_leaves, c.checks,
            tuple([check.error or "OutOfBounds" for check in self.layout.checks]), tuple(dict.fromkeys(c.holds_while)),
            self._arena(), self._arena_most(),
        )

    def _arena(self) -> Size:
        reduced = self.contents.solved.settle(self.arena)
        return reduced if isinstance(reduced, int) else str(reduced)

    def _arena_most(self) -> int | None:
        """The most that the arena needs, where all sizes have bounds."""
        most = {s.symbol: s.most for s in self.contents.sizes if s.most < MOST and s.least >= 0}
        return upper_bound(self.contents.solved.settle(self.arena), lambda atom: most.get(atom.key))


def _link(object_file: Path) -> Path:
    """A shared library of an object. Raises ExportError where there is no linker, or it fails."""
    library = object_file.with_suffix(".so")
    for command, *options in _LINKERS:
        if shutil.which(command):
            run = subprocess.run([command, *options, "-o", library, object_file], capture_output=True, text=True)
            if run.returncode:
                raise ExportError(f"export: {command} cannot link {object_file.name}: {run.stderr.strip()}")
            return library
    raise ExportError("export: a shared library needs a linker (cc, gcc, clang or ld), and there is none")
