"""Starting the processes that are timed in turn, asking them, and the words every figure is printed with."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


REAL_TIME = "WEFT_BENCH_REAL_TIME"


def outrank() -> None:
    """Run before other jobs, where the system allows it: a foreign busy process makes every barrier of a thread pool
    wait for a time slice."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except (AttributeError, OSError):
        print("no permission to run in real time", file=sys.stderr)


class Failed(Exception):
    """A library could not do what was asked; the text is its own."""


class PeerProcess:
    """A library in its own process, with two threads."""

    def __init__(self, name: str, python: str, environment: dict[str, str] | None = None) -> None:
        self.name = name
        settings = {
            **os.environ, **dict.fromkeys(THREAD_VARIABLES, "2"), "PYTHONPATH": str(ROOT), **(environment or {})
        }
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.peer", name], cwd=ROOT, env=settings, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            preexec_fn=outrank if os.environ.get(REAL_TIME) else None,
        )
        self.import_seconds: float = self._reply()["import_seconds"]

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """The reply to a request. Raises Failed."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(f"{self.name} ended with code {self.process.wait()}") from None
        return self._reply()

    def _reply(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"{self.name} ended with code {self.process.wait()}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise Failed(reply["error"])
        return reply

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended before
            self.process.stdin.close()
        self.process.wait()

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Arguments that all benchmarks share."""
    made = argparse.ArgumentParser(
        description=(doc or "").split("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--torch", metavar="PYTHON", default=os.environ.get("WEFT_BENCH_TORCH"),
        help="an interpreter that has torch, to compare with",
    )
    return made


def torch_python(given: str | None) -> str | None:
    """The interpreter to run torch with: the one given, this one if it has torch, else None."""
    candidate = given or sys.executable
    found = subprocess.run([candidate, "-c", "import torch"], capture_output=True, check=False)
    if found.returncode == 0:
        return candidate
    if given:
        raise SystemExit(f"{given} cannot import torch:\n{found.stderr.decode().strip()}")
    return None


def machine() -> str:
    """One line on the machine and how busy it is."""
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return f"{os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}, load {load}"
