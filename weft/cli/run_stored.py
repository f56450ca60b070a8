"""`python -m weft run`: a stored program or model on arrays from a file, compiled."""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from weft.cli.failure import CommandError


def add_command(commands: Any) -> None:
    """Add `run` to the commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "run",
        help="run a stored program (weft.jit.save) or ONNX model on arrays",
        description="Run a program that weft.jit.save wrote, or a model in an ONNX file, on the arrays of an .npz "
        "file. It needs no source. The program is compiled; what was compiled stays on disk, and the next process "
        "compiles nothing. A stored training step trains: --times repeats it, --save keeps what it has learned.",
    )
    parser.add_argument("module", type=Path, metavar="MODULE", help="a file of weft.jit.save, or an .onnx file")
    parser.add_argument(
        "--input", type=Path, required=True, metavar="FILE.npz",
        help="the arguments: arrays under the parameters' names, or any names in order",
    )
    parser.add_argument("--output", type=Path, metavar="FILE.npz", help="write the results there")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="run so many times (default: 1)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the program there afterwards, with its state")
    parser.add_argument("--eager", action="store_true", help="run operator by operator, without compiling")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the program and show or write its results."""
    import weft
    from weft.support.errors import WeftError

    if options.times < 1:
        raise CommandError("--times must be at least 1")
    arrays, before = _arrays(options.input), weft.counters.llvm_compiles
    try:
        program, names = _loaded(options.module)
    except (WeftError, ImportError) as problem:
        raise CommandError(f"{options.module}: {problem}") from None
    try:
        inputs = _numbers(program, _in_order(arrays, names, options.input))
        call = program if options.eager else weft.compile(program)
        result = None
        for _ in range(options.times):
            result = call(*inputs)
        if options.save is not None:
            _save(program, options.save)
    except WeftError as problem:
        raise CommandError(f"{options.module}: {problem}") from None
    results = _named(result, getattr(program, "output_names", ()))
    if options.output is not None:
        np.savez(options.output, **results)
    else:
        for name, array in results.items():
            print(f"{name}: {array.dtype}[{', '.join(map(str, array.shape))}]")
            print(weft.from_numpy(array) if array.dtype.kind != "V" else array)
    if not options.eager:
        compiled = weft.counters.llvm_compiles - before
        print(f"({'nothing to compile: found on disk' if not compiled else f'{compiled} compiled'})")
    return 0


def _arrays(path: Path) -> dict[str, Any]:
    """The arrays of an .npz file, by name and in order."""
    try:
        with np.load(path, allow_pickle=False) as held:
            return {name: held[name] for name in held.files}
    except FileNotFoundError:
        raise CommandError(f"{path}: no such file") from None
    except (ValueError, OSError, zipfile.BadZipFile, AttributeError) as problem:
        raise CommandError(f"{path}: not an .npz file of arrays: {problem}") from None


def _loaded(path: Path) -> tuple[Any, list[str]]:
    """The program, and the names of its parameters."""
    import weft
    import weft.jit

    if not path.is_file():
        raise CommandError(f"{path}: no such file")
    if path.suffix == ".onnx":
        import weft.onnx

        model = weft.onnx.load(path)
        return model, model.input_names
    program = weft.jit.load(path)
    source: Any = program.forward if isinstance(program, weft.nn.Module) else program
    names = [p.name for p in source.__weft_program__.parameters]
    return program, names[1:] if isinstance(program, weft.nn.Module) else names


def _in_order(arrays: dict[str, Any], names: list[str], path: Path) -> list[Any]:
    """The arguments as tensors: by name where the file has the parameters' names, else in the file's order."""
    import weft

    if len(arrays) > len(names):
        raise CommandError(f"{path} has {len(arrays)} arrays, the program takes {len(names)}: {', '.join(names)}")
    if set(arrays) <= set(names):
        passed = names[: len(arrays)]
        missing = [n for n in passed if n not in arrays]
        if missing:
            raise CommandError(f"{path} has no array {missing[0]!r}; the program takes {', '.join(names)}")
        arguments = [arrays[n] for n in passed]
    else:
        arguments = list(arrays.values())
    return [weft.from_numpy(np.ascontiguousarray(a).reshape(a.shape)) for a in arguments]


def _numbers(program: Any, inputs: list[Any]) -> list[Any]:
    """The arguments, with numbers for the parameters that are such."""
    from weft.types.tensor_type import BOOL, FLOAT, INT

    source: Any = getattr(program, "forward", program)
    stored = getattr(source, "__weft_program__", None)
    if stored is None:
        return inputs
    kinds = [p.type for p in stored.parameters][source is not program :]
    makers = {INT: int, FLOAT: float, BOOL: bool}
    return [
        makers[kind](value.item()) if kind in makers and value.numel() == 1 else value
        for value, kind in zip(inputs, kinds, strict=False)
    ]


def _named(result: Any, names: Any) -> dict[str, Any]:
    """The tensors and numbers of a result under names."""
    from weft.support import pytree
    from weft.tensor.tensor import Tensor

    leaves = [leaf for leaf in pytree.flatten(result)[0] if leaf is not None]
    labels = list(names) if len(names) == len(leaves) else [f"output_{i}" for i in range(len(leaves))]
    return {
        label: leaf.detach().numpy() if isinstance(leaf, Tensor) else np.asarray(leaf)
        for label, leaf in zip(labels, leaves, strict=True)
    }


def _save(program: Any, path: Path) -> None:
    import weft.jit

    weft.jit.save(program, path)
