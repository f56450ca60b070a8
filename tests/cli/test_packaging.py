"""The wheel: what is in it, and that it works outside the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import weft

ROOT = Path(__file__).resolve().parents[2]


def pip(*arguments: object, cwd: Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what git would hand out, so that nothing is left in the checkout."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    for path in (ROOT / "weft").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            copy = source / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    pip("wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", out, ".", cwd=source)
    return next(out.glob("weft-*.whl"))


def test_the_wheel_holds_every_module_the_types_and_the_licence(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT).as_posix()) for path in (ROOT / "weft").rglob("*.py")}
    objects = {str(path.relative_to(ROOT).as_posix()) for path in (ROOT / "weft/codegen/objects").iterdir()}
    assert objects and modules | objects <= inside
    assert {"weft/py.typed", "weft/cli/torch_reference.json"} <= inside
    assert any(re.fullmatch(r"weft-[\d.]+\.dist-info/(licenses/)?LICENSE", name) for name in inside)
    assert not any(name.startswith(("tests", "scripts", "benchmarks", "docs")) for name in inside)


def test_versions_agree(wheel: Path) -> None:
    assert wheel.name.split("-")[1] == weft.__version__
    assert f'\nversion = "{weft.__version__}"\n' in (ROOT / "pyproject.toml").read_text()


def test_it_works_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    pip("install", "--quiet", "--no-deps", "--no-index", "--target", tmp_path / "site", wheel, cwd=tmp_path)
    code = "import weft; print(weft.__file__); print((weft.ones(2, 3) @ weft.ones(3, 1)).sum().item())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines() == [str(tmp_path / "site" / "weft" / "__init__.py"), "6.0"], done.stderr
