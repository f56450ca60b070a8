"""The file `dev`: its help, its environment, and what it says when one cannot be made."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run_dev(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "dev"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=100)


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The file as a module, with an environment folder of its own."""
    monkeypatch.setenv("WEFT_VENV", str(tmp_path / "venv"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = spec_from_loader("dev", SourceFileLoader("dev", str(ROOT / "dev")))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_alone_it_says_what_there_is() -> None:
    done = run_dev()
    assert done.returncode == 0 and done.stdout == run_dev("--help").stdout
    for name in ("demo", "test", "bench", "docs", "conformance", "lint", "types", "size"):
        assert f"\n  {name} " in done.stdout


def test_an_unknown_command_is_refused() -> None:
    done = run_dev("tets")
    assert done.returncode == 2 and "no command 'tets'" in done.stderr and not done.stdout


def test_it_needs_nothing_but_the_standard_library() -> None:
    tree = ast.parse((ROOT / "dev").read_text(), feature_version=(3, 10))
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in imports if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    for command in ("test", "clean"):
        done = run_dev(command, WEFT_VENV=str(tmp_path))
        assert done.returncode == 2 and "is not a virtual environment" in done.stderr
    assert (tmp_path / "precious").exists()


def test_installed_once_and_again_when_the_project_changes(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[str] = []

    def pretend_environment(clear: bool = True) -> None:
        python = dev.VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        python.parent.mkdir(parents=True, exist_ok=True)
        python.touch()

    monkeypatch.setattr(dev, "make_environment", pretend_environment)
    monkeypatch.setattr(dev, "install", lambda python, extra: installed.append(extra))
    for extra in ("plot", "plot", "dev", "plot", "dev"):
        dev.ready_environment(extra)
    assert installed == ["plot", "dev"]
    monkeypatch.setattr(dev, "digest", lambda path: "changed")
    dev.ready_environment("dev")
    assert installed == ["plot", "dev", "dev"]
    dev.STAMP.write_text("not json")
    dev.ready_environment("plot")
    assert installed == ["plot", "dev", "dev", "plot"]


def test_an_environment_that_was_stopped_half_made_is_completed(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []
    python = dev.VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    python.parent.mkdir(parents=True)
    shutil.copy(sys.executable, python) if os.name == "nt" else python.symlink_to(sys.executable)
    (dev.VENV / "pyvenv.cfg").write_text("home = nowhere\ninclude-system-site-packages = false\n")
    monkeypatch.setattr(dev, "make_environment", lambda clear=True: made.append(clear))
    monkeypatch.setattr(dev, "install", lambda python, extra: None)
    dev.ready_environment("plot")
    assert made == [False]  # what is there stays


def test_ctrl_c_is_no_traceback(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(dev.COMMANDS, "lint", stopped)
    assert dev.main(["lint"]) == 130 and "stopped" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM for one process")
def test_a_request_to_end_reaches_what_runs(tmp_path: Path) -> None:
    """Through the command itself: whoever ends ./dev ends what it started."""
    program = (
        "import importlib.machinery as m, importlib.util as u, pathlib, sys\n"
        f"loader = m.SourceFileLoader('dev', {str(ROOT / 'dev')!r})\n"
        "dev = u.module_from_spec(u.spec_from_loader('dev', loader)); loader.exec_module(dev)\n"
        "dev.ready_environment = lambda extra: pathlib.Path(sys.executable)\n"
        "child = \"import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print('ready', "
        "flush=True); time.sleep(60)\"\nsys.exit(dev.run_python('dev', '-c', child))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.wait(timeout=30) == 7


def test_a_failed_installation_is_told(
    dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\n')
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    monkeypatch.setattr(dev, "RETRIES", "0")
    # A closed port in place of the package index: what a machine without a network sees.
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(SystemExit) as caught:
        dev.install(Path(sys.executable), "dev")
    assert caught.value.code == 2 and "Is the package index reachable" in capsys.readouterr().err


def test_exit_code_and_arguments_are_passed_on(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "ready_environment", lambda extra: Path(sys.executable))
    assert dev.run_python("dev", "-c", "import sys; sys.exit(len(sys.argv))", "a", "b") == 3
