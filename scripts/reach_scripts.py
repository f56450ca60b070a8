"""Run training scripts of public repositories as they are, on weft and on PyTorch, and compare where they end.

Each section of reach_scripts.ini is a script: its repository at a commit, its arguments, and the number that it prints
at the end. Its files are brought by git when they are first needed and kept outside of the repository; data sets that a
script would download are files of the same format with drawn content (reach_data.py). It runs as it is, and then with
its seeds moved, so that the numbers of both sides have a spread to be compared by: their random numbers are not the
same ones.
"""

from __future__ import annotations

import argparse
import configparser
import json
import math
import os
import re
import shlex
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIST = HERE / "reach_scripts.ini"
DATA = HERE / "reach_data.py"
MOVED = HERE / "reach_seed.py"
LARGEST = 2_000_000  # bytes of a file of a repository that is taken: larger ones are data
LEFT_OUT = {".png", ".gif", ".jpg", ".mp4", ".pdf", ".pt"}
# How far the means of two sides may be apart, in standard errors of their difference: 99 % of Student's t, by the
# number of runs on each side; and in parts of the number, for scripts whose runs hardly differ.
ERRORS, PART = {2: 9.92, 3: 4.60, 4: 3.71, 5: 3.36}, 0.02
QUIET = {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": ""}
EAGER = {"TORCHDYNAMO_DISABLE": "1"}  # PyTorch's own compiler wants one of C: beside it stands PyTorch's eager


@dataclass(frozen=True)
class Script:
    """name; kind: what is trained; repository: OWNER/NAME; commit; folders: the parts of it that are taken; commands:
    the scripts with their arguments, in turn; number: a regular expression of what is compared, its last match; data:
    the names of reach_data's functions; requires and needs: as of packages; compiles: whether it calls
    torch.compile."""

    name: str
    kind: str
    repository: str
    commit: str
    folders: tuple[str, ...]
    commands: tuple[str, ...]
    number: re.Pattern[str]
    data: tuple[str, ...]
    requires: tuple[str, ...]
    needs: tuple[str, ...]
    compiles: bool


@dataclass(frozen=True)
class Run:
    """value: the number at the end (NaN where there is none); seconds: of the processor, of all commands; problem: what
    stopped it."""

    value: float
    seconds: float
    problem: str = ""


@dataclass(frozen=True)
class Outcome:
    """The runs of a script on both sides; theirs is empty where there is no PyTorch."""

    script: Script
    ours: tuple[Run, ...]
    theirs: tuple[Run, ...]

    @property
    def problem(self) -> str:
        """What stops it or what differs; nothing if it is whole."""
        for side, runs in (("", self.ours), ("PyTorch: ", self.theirs)):
            stopped = [run.problem for run in runs if run.problem]
            if stopped:
                return side + stopped[0]
        return ends_that_differ([run.value for run in self.ours], [run.value for run in self.theirs])


def scripts() -> list[Script]:
    """The scripts of the list, in its order."""
    parser = configparser.ConfigParser(delimiters=("=",), comment_prefixes=("#",), interpolation=None, strict=True)
    parser.read_string(LIST.read_text(encoding="utf-8"))
    return [_script(parser[name]) for name in parser.sections()]


def _script(section: configparser.SectionProxy) -> Script:
    repository, commit = section["source"].split()
    lines = section["run"].splitlines()
    return Script(
        section.name, section["kind"], repository, commit, tuple(section["files"].split()),
        tuple(line.strip() for line in lines if line.strip()), re.compile(section["number"]),
        tuple(section.get("data", "").split()), tuple(section.get("requires", "").split()),
        tuple(section.get("needs", "").split()), section.getboolean("compiles", False),
    )  # fmt: skip


# ---------------------------------------------------------------- its files


def bring(script: Script, options: argparse.Namespace) -> Path:
    """The folder with the git objects of its repository: a local one, or where they are brought to when they are not
    there yet. Raises RuntimeError with git's words."""
    owner, name = script.repository.split("/")
    address = options.repositories.format(owner=owner, name=name)
    if Path(address).is_dir():
        return Path(address)
    folder = Path(options.env).absolute() / "sources" / f"{owner}+{name}"
    folder.mkdir(parents=True, exist_ok=True)
    if git(folder, "cat-file", "-e", script.commit).returncode:
        for words in (["init", "--quiet", "--bare"], ["fetch", "--quiet", "--depth", "1", address, script.commit]):
            done = git(folder, *words)
            if done.returncode:
                raise RuntimeError((done.stderr.strip().splitlines() or ["git failed"])[-1])
    return folder


def git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """One call of git, with what it says."""
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True)


def lay_out(script: Script, objects: Path, folder: Path, python: Path) -> None:
    """Write its part of the repository, without what is large, and its data."""
    for part in script.folders:
        listed = git(objects, "ls-tree", "-r", "-z", "-l", "--full-tree", script.commit, part)
        for entry in filter(None, listed.stdout.split("\0")):
            facts, _, name = entry.partition("\t")
            _, kind, blob, size = facts.split()
            if kind != "blob" or not size.isdigit() or int(size) > LARGEST or Path(name).suffix in LEFT_OUT:
                continue
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                subprocess.run(["git", "cat-file", "blob", blob], cwd=objects, stdout=file, check=True)
    if script.data:
        subprocess.run([str(python), str(DATA), str(folder), *script.data], check=True)
    for command in script.commands:
        path = folder / shlex.split(command)[0]
        if path.suffix == ".ipynb":
            path.with_suffix(".py").write_text(code_of(path), encoding="utf-8")


def code_of(notebook: Path) -> str:
    """The code of a notebook's cells, without what is for the notebook alone (lines with % or !)."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    lines = [line for cell in cells if cell["cell_type"] == "code" for line in [*cell["source"], "\n"]]
    text = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
    return "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith(("%", "!")))


# ---------------------------------------------------------------- runs


def kept_outcome(script: Script, file: Path) -> Outcome:
    """The runs that were kept."""
    sides = json.loads(file.read_text(encoding="utf-8"))
    return Outcome(script, *(tuple(Run(**run) for run in sides[side]) for side in ("weft", "torch")))


def keep(result: Outcome, file: Path) -> None:
    """Write the runs of both sides to a file."""
    sides = {"weft": result.ours, "torch": result.theirs}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({side: [vars(run) for run in runs] for side, runs in sides.items()}), encoding="utf-8")


def outcome(script: Script, python: Path, paths: dict[str, Path], options: argparse.Namespace, problem: str) -> Outcome:
    """Run a script on weft, and beside it on PyTorch. paths: what PYTHONPATH is on each side; problem: what kept its
    packages from being installed."""
    try:
        if problem:
            raise RuntimeError(problem)
        objects = bring(script, options)
    except RuntimeError as error:
        return Outcome(script, (Run(math.nan, 0.0, str(error)),), ())
    sides = {"weft": [str(python), "-m", "weft.torch"]}
    if options.torch:
        sides["torch"] = [options.torch]
    runs: dict[str, list[Run]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as name:
        laid = Path(name)
        lay_out(script, objects, laid, python)
        for seed in range(options.seeds):
            for side, command in sides.items():
                if not any(run.problem for run in runs[side]):
                    runs[side].append(one_run(script, laid, command, seed, paths[side], side, options))
    return Outcome(script, tuple(runs["weft"]), tuple(runs.get("torch", ())))


def one_run(
    script: Script, laid: Path, python: list[str], seed: int, path: Path, side: str, options: argparse.Namespace
) -> Run:
    """One run in a folder of its own, with the script's seeds moved by `seed`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "script"
        shutil.copytree(laid, folder)
        environment = {
            **os.environ,
            **QUIET,
            **(EAGER if side == "torch" else {}),
            "PYTHONPATH": f"{folder}{os.pathsep}{path}",
        }
        began, text = processor_time(), ""
        for command in script.commands:
            words = shlex.split(command)
            file = (folder / words[0]).with_suffix(".py")
            moved = [str(MOVED), str(seed)] if seed or side == "torch" else []
            try:
                done = subprocess.run(
                    [*python, *moved, file.name, *words[1:]], cwd=file.parent, env=environment, text=True,
                    timeout=options.limit, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return Run(math.nan, processor_time() - began, f"not through after {options.limit} s")
            text += done.stdout
            if "WEFT_REACH_TRACE" in os.environ:
                print(done.stdout, flush=True)
            if done.returncode:
                return Run(math.nan, processor_time() - began, last_line(done.stdout))
    seconds = processor_time() - began
    values = script.number.findall(text)
    if not values:
        return Run(math.nan, seconds, f"nothing printed looks like {script.number.pattern}: {last_line(text)}")
    return Run(float(values[-1]), seconds)


def processor_time() -> float:
    """Seconds that the processes started here have had of a processor: what else the machine does is not in it."""
    times = os.times()
    return times.children_user + times.children_system


def last_line(text: str) -> str:
    """The last line that says something: of a traceback, its error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "nothing was printed"


def ends_that_differ(ours: list[float], theirs: list[float]) -> str:
    """How far two sides' numbers are apart, if that is more than their spread explains."""
    if not theirs:
        return ""
    means = statistics.fmean(ours), statistics.fmean(theirs)
    if not all(map(math.isfinite, means)):  # (of which Python 3.10 computes no variance)
        return f"ends at {means[0]:.4g}, PyTorch at {means[1]:.4g}" if str(means[0]) != str(means[1]) else ""
    spread = sum(statistics.variance(side) / len(side) for side in (ours, theirs) if len(side) > 1)
    allowed = ERRORS.get(min(len(ours), len(theirs), 5), 0.0) * math.sqrt(spread) + PART * abs(means[1])
    if abs(means[0] - means[1]) <= allowed:
        return ""
    return f"ends at {means[0]:.4g}, PyTorch at {means[1]:.4g}; their spread explains {allowed:.2g}"


# ---------------------------------------------------------------- what is shown


def number_of(runs: tuple[Run, ...]) -> str:
    """The numbers of a side: their mean, and how far they spread."""
    values = [run.value for run in runs if not run.problem]
    if not values:
        return ""
    return f"{statistics.fmean(values):.4g} ± {statistics.stdev(values) if len(values) > 1 else 0:.1g}"


def seconds_of(runs: tuple[Run, ...]) -> str:
    """The fastest run of a side: what was compiled before is kept on disk."""
    return f"{min(run.seconds for run in runs):.1f}" if runs and not runs[0].problem else ""


def one_line(result: Outcome) -> str:
    """A script as the terminal shows it."""
    words = "whole" if not result.problem else result.problem
    sides = [
        f"{side} {number_of(runs)} in {seconds_of(runs)} s"
        for side, runs in (("weft", result.ours), ("torch", result.theirs)) if runs and not runs[0].problem
    ]  # fmt: skip
    return f"{result.script.name:<28} {words}" + (f"  ({'; '.join(sides)})" if sides else "")


def rows(results: list[Outcome], cell: Any) -> Iterator[str]:
    """The lines of the table in docs/reach.md."""
    for result in results:
        script = result.script
        address = f"https://github.com/{script.repository}/tree/{script.commit[:12]}/{script.folders[0]}"
        fields = (
            script.name, script.kind, f"[{script.repository}]({address})", number_of(result.ours),
            number_of(result.theirs), seconds_of(result.ours), seconds_of(result.theirs),
            "yes" if script.compiles else "", cell(result.problem) or "whole",
        )  # fmt: skip
        yield f"| {' | '.join(fields)} |"
