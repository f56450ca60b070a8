"""TorchScript archives that PyTorch wrote: what they compute, and what weft refuses in them.

data/archives is what scripts/make_torchscript_archives.py stored, with PyTorch's results.
"""

from __future__ import annotations

import io
import random
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
import weft.jit
from weft.jit import CompileError
from weft.support.errors import ParseError, Unsupported, WeftError

FOLDER = Path(__file__).parent / "data" / "archives"
NAMES = sorted(f.name.removesuffix(".calls.pt") for f in FOLDER.glob("*.calls.pt"))


def agree(result: Any, stored: Any) -> None:
    """A result is what PyTorch's was."""
    if isinstance(stored, list) and stored[0] in ("tuple", "list"):
        assert len(result) == len(stored) - 1
        for one, other in zip(result, stored[1:], strict=True):
            agree(one, other)
    elif isinstance(stored, list):
        assert list(result) == [k for k, _ in stored[1:]]
        for key, other in stored[1:]:
            agree(result[key], other)
    elif isinstance(stored, weft.Tensor):
        assert (result.dtype, result.shape) == (stored.dtype, stored.shape)
        np.testing.assert_allclose(result.detach().numpy(), stored.numpy(), rtol=2e-5, atol=2e-6)
    else:
        assert type(result) is type(stored) and result == stored


def arguments(stored: list[Any]) -> list[Any]:
    """What a call is given."""
    if not isinstance(stored, list):
        return stored
    if stored and stored[0] == "dict":
        return {k: arguments(v) for k, v in stored[1:]}  # type: ignore[return-value]
    return [arguments(v) for v in (stored[1:] if stored and stored[0] == "list" else stored)]


def calls_of(name: str) -> list[tuple[list[Any], Any]]:
    return [(arguments(args), result) for args, result in weft.load(FOLDER / f"{name}.calls.pt")]


@pytest.mark.parametrize("name", NAMES)
def test_programs_compute_what_pytorch_computed(name: str) -> None:
    """Each call in turn (state changes on the way), and again when weft has written and read the program."""
    module = weft.jit.load(FOLDER / f"{name}.pt")
    again = io.BytesIO()
    module.save(again)
    for one in (module, weft.jit.load(io.BytesIO(again.getvalue()))):
        for args, stored in calls_of(name):
            agree(one(*args), stored)


def test_a_loaded_module_is_trained() -> None:
    """Parameters are parameters: gradients come back to them, by central differences in float64."""
    module = weft.jit.load(FOLDER / "scripted.pt").double()
    assert sorted(n for n, _ in module.named_parameters()) == [f"{m}.{n}" for m in "bcl" for n in ("bias", "weight")]
    assert not module.training and not module.b.training
    x = weft.randn(2, 3, 5, 5, dtype=weft.float64)
    module(x).square().sum().backward()
    parameter, step = module.l.weight, 1e-6
    place = (random.randrange(5), random.randrange(4))
    values = []
    for sign in (1, -1):
        with weft.no_grad():
            parameter[place] += sign * step
            values.append(module(x).square().sum().item())
            parameter[place] -= sign * step
    assert parameter.grad is not None
    assert parameter.grad[place].item() == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5, abs=1e-7)


def test_other_methods_attributes_and_files_are_there() -> None:
    module = weft.jit.load(FOLDER / "language.pt", _extra_files=(files := {"note.txt": ""}))
    assert files == {"note.txt": b"language"}
    assert (module.names, module.table, module.last) == (["a", "b"], {"a": 1, "b": 5}, None)
    assert module.original_name == "Language"
    assert module.color.name == "BLUE"
    module(weft.randn(2, 3), 2)
    assert module.calls.item() == 1 and module.last is not None
    module.reset()
    assert module.calls.item() == 0 and module.last is None


def test_the_error_of_a_program_has_its_type() -> None:
    module = weft.jit.load(FOLDER / "language.pt")
    with pytest.raises(ValueError, match="too many: 101"):
        module(weft.randn(101, 3), 2)


def test_two_copies_of_an_archive_are_apart() -> None:
    """Types of the same names in two loaded archives do not meet."""
    first, second = (weft.jit.load(FOLDER / "language.pt") for _ in range(2))
    args, stored = calls_of("language")[0]
    agree(first(*args), stored)
    first.reset()
    agree(second(*args), stored)
    assert (first.calls.item(), second.calls.item()) == (0, 1)


# ---- what is refused
def changed(name: str, change: Callable[[str, bytes], bytes | None]) -> io.BytesIO:
    """An archive with other content: `change` gives that of each file, None for one to leave out."""
    result = io.BytesIO()
    with zipfile.ZipFile(FOLDER / f"{name}.pt") as source, zipfile.ZipFile(result, "w") as target:
        for entry in source.infolist():
            content = change(entry.filename, source.read(entry))
            if content is not None:
                target.writestr(entry.filename, content)
    result.seek(0)
    return result


def with_code(name: str, old: str, new: str) -> io.BytesIO:
    """An archive in whose code a text stands for another one."""

    def change(file: str, content: bytes) -> bytes:
        return content.replace(old.encode(), new.encode()) if file.endswith(".py") else content

    return changed(name, change)


@pytest.mark.parametrize("old, new", [
    ("x: Tensor,", "x: {evil},"),
    ("w: float", "w: {evil}"),
    ("flag: bool", "flag: bool={evil}"),
    ("-> Tensor", "-> {evil}"),
    ("    if flag:", "    y = annotate({evil}, x)\n    if flag:"),
    ("    if flag:", "    y = uninitialized({evil})\n    if flag:"),
    ("    if flag:", "    if isinstance(x, {evil}):\n      pass\n    if flag:"),
    ("    if flag:", "    y : {evil} = x\n    if flag:"),
    ("    if flag:", "    {evil}\n    if flag:"),
])  # fmt: skip
def test_nothing_of_a_file_is_run_as_python(old: str, new: str, tmp_path: Path) -> None:
    """Wherever Python's expressions stand in an archive's code, they are only looked at."""
    mark = tmp_path / "was_run"
    evil = f'__import__("pathlib").Path({str(mark)!r}).touch()'
    with pytest.raises((CompileError, ParseError)):
        weft.jit.load(with_code("function", old, new.format(evil=evil)))
    assert not mark.exists()


def test_an_operator_that_weft_lacks_is_named_with_its_line_when_it_is_met() -> None:
    """A branch that is not taken may call what it wants."""
    module = weft.jit.load(with_code("function", "torch.mul(", "torch.no_such_operator("))
    args = calls_of("function")[0][0]
    agree(module(*args), calls_of("function")[0][1])
    with pytest.raises(RuntimeError, match=r"no operator aten::no_such_operator(?s:.)*__torch__.py, line 10"):
        module(args[0], 2.0, True)


def of_version(version: int) -> Callable[[str, bytes], bytes]:
    """Says that an archive has this version."""
    return lambda file, content: b"%d\n" % version if file.endswith("/version") else content


def test_programs_of_older_versions_mean_what_they_meant() -> None:
    """Up to version 3 quotients of integers were integers, up to 4 what is full of an integer was full of floats."""
    whole = weft.tensor([7, -7, 2])
    for version, quotients in ((3, [4, -2, 2]), (4, [4.5, -2.5, 2.0])):

        def change(file: str, content: bytes, version: int = version) -> bytes:
            return of_version(version)(file, content.replace(b"torch.div(x, w)", b"torch.div(x, 2)"))

        assert weft.jit.load(changed("function", change))(whole, 2.0, False).tolist() == quotients
        assert weft.jit.load(changed("function", of_version(version)))(whole, 2.0, False).tolist() == [4.5, -2.5, 2.0]
    args = calls_of("operators")[0][0]
    assert weft.jit.load(changed("operators", of_version(4)))(*args)[22].dtype is weft.float32
    assert weft.jit.load(changed("operators", of_version(5)))(*args)[22].dtype is weft.int64


def test_newer_versions_and_parts_that_lack_are_refused() -> None:
    with pytest.raises(Unsupported, match="version 99"):
        weft.jit.load(changed("function", of_version(99)))
    with pytest.raises(ParseError, match="no definition of"):
        weft.jit.load(changed("scripted", lambda file, content: None if file.endswith("conv.py") else content))
    with pytest.raises(ParseError, match=r"weft\.jit\.load reads it"):
        weft.load(FOLDER / "function.pt")


def test_damaged_archives_load_nothing() -> None:
    """Bytes of the code and of the pickles changed at random: a WeftError, or a program that can be asked."""
    with zipfile.ZipFile(FOLDER / "language.pt") as source:
        files = [n for n in source.namelist() if re.search(r"\.py$|\.pkl$|version$", n)]
    for _ in range(60):
        victim = random.choice(files)

        def damage(file: str, content: bytes, victim: str = victim) -> bytes:
            if file != victim or not content:
                return content
            bytes_ = bytearray(content)
            for _ in range(random.choice((1, 3))):
                bytes_[random.randrange(len(bytes_))] = random.randrange(256)
            return bytes(bytes_[: random.choice((len(bytes_), random.randrange(len(bytes_) + 1)))])

        try:
            module = weft.jit.load(changed("language", damage))
        except WeftError:
            continue
        assert isinstance(module, weft.jit.ScriptModule)
