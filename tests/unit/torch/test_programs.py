"""`python -m weft.torch`: programs for PyTorch in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import weft

HERE = Path(__file__).parent
PROGRAM = """
import subprocess, sys
from beside import value
import torch
from torch import nn

def square(i):
    return float(torch.tensor(i) ** 2)

if __name__ == "__main__":
    assert sys.modules["__main__"].__file__ == __file__ == sys.argv[0]
    print(sys.argv[1:], value.sum().item(), hasattr(torch, "absent"))
    try:
        nn.Absent
    except AttributeError:
        pass
    child = "import torch; print(torch.__name__, torch.float32)"
    print(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout.strip())
    processes = torch.multiprocessing.spawn(square, nprocs=2, join=False)  # which import this file
    print(processes.join(60) or processes.join(60))
    sys.exit(7)
"""


def run(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A process of `python -m weft.torch`."""
    return subprocess.run(
        [sys.executable, "-m", "weft.torch", *arguments], capture_output=True, text=True, cwd=folder,
        env={**__import__("os").environ, "PYTHONPATH": str(Path(weft.__file__).parents[1])},
    )


def test_names_modules_errors_and_handlers() -> None:
    done = run(str(HERE / "names.py"))
    assert done.returncode == 0, done.stderr


def test_a_program_runs_as_python_would_run_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("import torch\nvalue = torch.ones(3)\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run("--missing", "program.py", "-m", "--lr", "1", folder=tmp_path)
    assert done.stdout.splitlines() == ["['-m', '--lr', '1'] 3.0 False", "torch torch.float32", "True"]
    assert done.returncode == 7 and done.stderr.splitlines() == [
        "weft.torch: 2 names were asked for in vain", "  torch.absent  program.py:12",
        "  torch.nn.Absent  program.py:14",
    ]


def test_modules_tracebacks_and_mistakes(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text("import sys, torch\nprint(sys.argv[1:], torch.ones(2))\n1 / 0\n")
    done = run("-m", "package", "a", folder=tmp_path)
    assert done.stdout == "['a'] tensor([1., 1.])\n" and done.returncode == 1
    assert "1 / 0" in done.stderr and done.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert "weft" not in done.stderr
    for arguments, text in (
        (["absent.py"], "no file absent.py"), (["-m", "absent"], "no module absent"), (["--fast", "x.py"], "no option"),
        ([], "name a script"),
    ):
        done = run(*arguments, folder=tmp_path)
        assert done.returncode == 2 and text in done.stderr.splitlines()[0] and not done.stdout


def test_installing_late_is_refused_and_the_real_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\nimport torch, weft\n"
        "try:\n    weft.torch.install()\nexcept RuntimeError as error:\n    assert 'imported already' in str(error)\n"
        "else:\n    raise SystemExit('installed')\nassert not weft.torch.is_installed()\n"
        "del sys.modules['torch']\nweft.torch.install(); weft.torch.install()\nimport torch\n"
        "assert torch.ones is weft.ones and weft.torch.is_installed()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
