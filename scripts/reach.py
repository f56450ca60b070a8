"""Run models and tests of third-party packages that are written for PyTorch on weft, and say what stops them.

    ./dev reach [--scripts] [--env DIR] [--only NAME] [--torch PYTHON] [--keep FOLDER] [--write]

The packages of reach.ini are installed into an environment outside of the repository when they are first tried, without
torch. Each package is one process under `python -m weft.torch`, and one line: how many of its models are whole
(forward, backward, three steps of SGD), or the first thing that stops one, with its line. --torch names an interpreter
that has PyTorch: then the same runs there from the same weights, and a model is whole if outputs, gradients and losses
agree (to 1e-4 of the largest in float64).

--scripts runs the training scripts of reach_scripts.ini instead (reach_scripts.py).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import reach_scripts
from reach_list import Model, Package, packages

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "reach.md"
CASE = Path(__file__).resolve().parent / "reach_case.py"
# What an installation of PyTorch brings: packages import these without naming them among their own requirements.
PYTORCH_BRINGS = ("filelock", "fsspec", "jinja2", "networkx", "sympy", "typing-extensions")
# How far a number may be from PyTorch's, of the largest of its tensor, by dtype: outputs and the first loss (packages
# compute parts in float32 in any case), and what follows from sums of many.
LIMITS = {"float64": (1e-4, 1e-3), "float32": (1e-3, 3e-2)}
Line = dict[str, Any]


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    if options.scripts:
        return run_scripts(options)
    wanted = [p for p in packages() if not options.only or p.name in options.only]
    unknown = set(options.only) - {p.name for p in wanted}
    if unknown:
        print(f"./dev reach: no package {', '.join(sorted(unknown))} in reach.ini; --list shows them", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{p.name:<28} {len(p.models):>2} models  {' '.join(p.requires)}" for p in wanted))
        return 0
    python = environment(options.env)
    results: list[tuple[Package, list[Line], list[str]]] = []
    for package in wanted:
        kept = options.keep and options.keep / f"{package.name}.json"
        if kept and kept.exists():
            record = json.loads(kept.read_text(encoding="utf-8"))
            lines, suites = record["models"], record["suites"]
        else:
            problem = install(python, package, options.env)
            lines = failed(package, problem) if problem else run_models(package, python, options)
            suites = [] if problem else [run_suite(suite, python, options) for suite in package.suites]
            if kept:
                options.keep.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps({"models": lines, "suites": suites}), encoding="utf-8")
        results.append((package, lines, suites))
        print(one_line(package, lines, suites), flush=True)
    whole = sum(line["ok"] for _, lines, _ in results for line in lines)
    count = sum(len(lines) for _, lines, _ in results)
    print(f"{whole} of {count} models are whole")
    if options.write:
        _, mark, scripts = TABLE.read_text(encoding="utf-8").partition(SCRIPTS)
        write_table(page(results, options), mark + scripts)
    return 0


def write_table(packages_part: str, scripts_part: str) -> None:
    """Write docs/reach.md of its two parts."""
    TABLE.write_text(packages_part + scripts_part, encoding="utf-8")
    print(f"written: {TABLE.relative_to(ROOT)}")


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev reach", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--env", type=Path, default=Path(os.environ.get("WEFT_REACH_ENV") or ROOT.parent / "weft-reach"),
        help="the environment that packages go into, outside of the repository (default: %(default)s)",
    )
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter with PyTorch and NumPy, to compare with")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these packages")
    parser.add_argument("--models", default="", help="of them, these models (names with commas between)")
    parser.add_argument("--scripts", action="store_true", help="run training scripts of repositories, not packages")
    parser.add_argument(
        "--repositories", default="https://github.com/{owner}/{name}", metavar="ADDRESS",
        help="where git finds the repository of a script (default: %(default)s)",
    )
    parser.add_argument("--seeds", type=int, default=3, help="runs of a script on each side (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="say which packages there are, and run nothing")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER",
        help="keep each package's result there, and run only those that it does not have yet",
    )
    parser.add_argument("--limit", type=int, default=1200, help="seconds for a package (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table of docs/reach.md")
    return parser.parse_args(arguments)


def run_scripts(options: argparse.Namespace) -> int:
    """Run the scripts of the list, a line for each; whether they end where PyTorch does."""
    wanted = [script for script in reach_scripts.scripts() if not options.only or script.name in options.only]
    if options.list:
        print("\n".join(f"{script.name:<28} {script.kind:<24} {script.repository}" for script in wanted))
        return 0
    python = environment(options.env)
    paths = {"weft": ROOT, "torch": site_packages(options.env)}
    results = []
    for script in wanted:
        kept = options.keep and options.keep / f"script-{script.name}.json"
        if kept and kept.exists():
            results.append(reach_scripts.kept_outcome(script, kept))
        else:
            problem = pip(python, list(script.needs), options.env)
            problem = problem or (pip(python, ["--no-deps", *script.requires], options.env) if script.requires else "")
            results.append(reach_scripts.outcome(script, python, paths, options, problem))
            if kept:
                reach_scripts.keep(results[-1], kept)
        print(reach_scripts.one_line(results[-1]), flush=True)
    whole = sum(not result.problem for result in results)
    print(f"{whole} of {len(results)} scripts end where PyTorch does")
    if options.write:
        head = SCRIPTS_HEAD.format(
            whole=whole, count=len(results), listed=len(reach_scripts.scripts()), seeds=options.seeds, **written_at()
        )
        lines = [head, *reach_scripts.rows(results, cell)]
        write_table(TABLE.read_text(encoding="utf-8").partition(SCRIPTS)[0], SCRIPTS + "\n".join(lines) + "\n")
    return 0


def written_at() -> dict[str, str]:
    """The day and the commit that a table is of."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    return {"day": datetime.now(timezone.utc).strftime("%Y-%m-%d"), "commit": commit.strip()}


# ---------------------------------------------------------------- the environment


def environment(folder: Path) -> Path:
    """The Python of the environment, made where there is none, with what weft depends on."""
    python = folder.absolute() / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        print(f"./dev reach: making {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    depends = re.search(r"^dependencies = \[(.*?)^\]", text, re.S | re.M)
    names = re.findall(r'"([^"]+)"', depends.group(1)) if depends else []
    pip(python, [*names, *PYTORCH_BRINGS, "pytest>=8.3,<10", "hypothesis>=6.120,<7", "setuptools<81"], folder)
    return python


def install(python: Path, package: Package, folder: Path) -> str:
    """Install a package where it is not; what pip said, if it could not."""
    problem = pip(python, list(package.needs), folder)
    return problem or pip(python, ["--no-deps", *package.requires], folder)


def pip(python: Path, arguments: list[str], folder: Path) -> str:
    """Call pip, once for each list; its last line, if it failed."""
    mark = folder / f"weft-{hashlib.sha256(' '.join(arguments).encode()).hexdigest()[:16]}"
    if mark.exists() or not arguments:
        return ""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    mark.touch()
    return ""


# ---------------------------------------------------------------- models


def failed(package: Package, problem: str) -> list[Line]:
    """The lines of a package that did not come as far as its models."""
    return [{"name": model.name, "ok": False, "error": problem, "where": ""} for model in package.models]


def run_models(package: Package, python: Path, options: argparse.Namespace) -> list[Line]:
    """A line for each model: whether it is whole, or what stopped it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = run_side("weft", [str(python), "-m", "weft.torch"], package, folder, options)
        if not options.torch:
            return lines
        theirs = run_side("torch", [options.torch], package, folder, options)
        limits = {model.name: LIMITS[model.dtype] for model in package.models}
        return [
            compared(line, their, folder, limits[line["name"]]) for line, their in zip(lines, theirs, strict=True)
        ]


def run_side(
    side: str, command: list[str], package: Package, folder: Path, options: argparse.Namespace
) -> list[Line]:
    """The lines that reach_case.py writes on one side; those that it did not come to say how it ended."""
    paths = [str(ROOT)] if side == "weft" else [str(site_packages(options.env))]
    reading, writing = os.pipe()
    with (folder / f"{side}.log").open("w+") as log:
        process = subprocess.Popen(
            [
                *command, str(CASE), package.name, "--folder", str(folder), "--side", side, "--models",
                options.models, "--results", str(writing),
            ],
            cwd=folder, env={**os.environ, "PYTHONPATH": os.pathsep.join([*paths, str(CASE.parent)]), **QUIET},
            stdout=log, stderr=subprocess.STDOUT, pass_fds=(writing,),
        )
        os.close(writing)
        try:
            process.wait(options.limit)
            ending = f"the process ended with {process.returncode}"
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            ending = f"not through after {options.limit} s"
        with os.fdopen(reading) as lines:
            told = {line["name"]: line for line in map(json.loads, lines)}
        log.seek(0)
        last = [text for text in log.read().splitlines() if text.strip()][-1:]
        if "WEFT_REACH_TRACE" in os.environ:
            log.seek(0)
            print(log.read(), file=sys.stderr)
    wanted = [m for m in package.models if not options.models or m.name in options.models.split(",")]
    return [told.get(model.name) or ended(model, ending, last) for model in wanted]


QUIET = {  # for libraries that would look for a network, a screen or other back ends
    "HF_HUB_OFFLINE": "1", "EINOPS_TEST_BACKENDS": "torch",
    "TOKENIZERS_PARALLELISM": "false", "MPLBACKEND": "agg", "NO_COLOR": "1",
}


def ended(model: Model, ending: str, last: list[str]) -> Line:
    """The line of a model that the process did not come to."""
    return {"name": model.name, "ok": False, "error": f"{ending}: {' '.join(last)[:300]}", "where": ""}


def site_packages(folder: Path) -> Path:
    """Where the environment's packages lie."""
    return next(folder.absolute().rglob("site-packages"))


def compared(mine: Line, their: Line, folder: Path, limits: tuple[float, float]) -> Line:
    """A model's line, with what differs from PyTorch's numbers."""
    if not mine["ok"]:
        return {**mine, "also": not their["ok"]}
    if not their["ok"]:
        return {**mine, "ok": False, "error": f"PyTorch refuses it: {their['error']}", "also": True}
    name = mine["name"]
    with np.load(folder / f"{name}.weft.npz") as ours, np.load(folder / f"{name}.torch.npz") as others:
        if set(ours) != set(others):
            lacking = sorted(set(ours) ^ set(others))
            return {**mine, "ok": False, "error": f"one side only has: {', '.join(lacking[:4])}"}
        for key in ours:
            problem = difference(key, ours[key], others[key], limits)
            if problem:
                return {**mine, "ok": False, "error": problem}
    return {**mine, "beside": their.get("seconds")}


def difference(key: str, ours: Any, others: Any, limits: tuple[float, float]) -> str:
    """How two arrays differ, or nothing."""
    if ours.shape != others.shape:
        return f"{key} has the size {ours.shape}, PyTorch's {others.shape}"
    if not ours.size:
        return ""
    largest = max(float(np.abs(others).max()), 1e-6)
    if not np.isfinite(largest):
        return "" if np.array_equal(ours, others, equal_nan=True) else f"{key} is not finite in PyTorch, or differs"
    apart = float(np.abs(ours - others).max()) / largest
    limit = limits[not (key.startswith("output") or key == "loss 0")]
    return "" if apart <= limit else f"{key} differs by {apart:.1e} of the largest"


# ---------------------------------------------------------------- suites


def run_suite(suite: str, python: Path, options: argparse.Namespace) -> str:
    """One text: a suite's passes on weft, and PyTorch's beside them."""
    mine = passes(suite, [str(python), "-m", "weft.torch", "-m", "pytest"], [str(ROOT)], options)
    if not options.torch:
        return f"{suite.split()[0]} {mine}"
    theirs = passes(suite, [options.torch, "-m", "pytest"], [str(site_packages(options.env))], options)
    return f"{suite.split()[0]} {mine} (PyTorch: {theirs})"


def passes(suite: str, command: list[str], paths: list[str], options: argparse.Namespace) -> str:
    """What pytest says in its last line, without the time."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*command, "-q", "-p", "no:cacheprovider", "--tb=no", "-W", "ignore", "--pyargs", *suite.split()],
            cwd=folder, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **QUIET}, capture_output=True,
            text=True, timeout=options.limit,
        )
    last = (done.stdout.strip().splitlines() or ["nothing was printed"])[-1]
    return re.sub(r" in [\d.]+s.*", "", last.strip("= "))


# ---------------------------------------------------------------- what is shown


def one_line(package: Package, lines: list[Line], suites: list[str]) -> str:
    whole = sum(line["ok"] for line in lines)
    text = f"{package.name:<28} {whole}/{len(lines)}"
    for line in lines:
        if not line["ok"]:
            also = " (PyTorch too)" if line.get("also") else ""
            where = f"  [{line['where']}]" if line.get("where") else ""
            text += f"\n    {line['name']}{also}: {line['error']}{where}"
    return "\n".join([text, *(f"    {suite}" for suite in suites)])


def page(results: list[tuple[Package, list[Line], list[str]]], options: argparse.Namespace) -> str:
    """docs/reach.md."""
    whole = sum(line["ok"] for _, lines, _ in results for line in lines)
    count = sum(len(lines) for _, lines, _ in results)
    compared_with = "numbers compared with PyTorch's" if options.torch else "without PyTorch beside it"
    rows = []
    for package, lines, suites in results:
        stopped = "; ".join(f"{line['name']}: {cell(line['error'])}" for line in lines if not line["ok"])
        row = (package.name, " ".join(package.requires), f"{sum(x['ok'] for x in lines)}/{len(lines)}", stopped)
        rows.append(f"| {' | '.join([*row, '; '.join(suites)])} |")
    return HEAD.format(whole=whole, count=count, how=compared_with, **written_at()) + "\n".join(rows) + "\n"


def cell(text: str) -> str:
    """An error as a table takes it."""
    return text[:160].replace("|", "\\|")


HEAD = """\
# Packages that are written for PyTorch

`./dev reach --torch PYTHON_WITH_TORCH --write` runs models and tests of third-party packages under
`python -m weft.torch` and writes this page. The packages come from PyPI into an environment outside of the repository;
none of them is changed, and torch is not installed there. A model is whole if it is made, and runs forward, backward
and three steps of SGD in float64, from weights of its own drawing; beside PyTorch, its outputs, gradients and losses
must agree from the same weights.
[scripts/reach.ini](../scripts/reach.ini) has the list.

**{whole} of {count} models are whole** ({how}; {day}, commit {commit}).

| package | installed | whole | what stops the others | suites |
|---|---|---|---|---|
"""

SCRIPTS = "\n## Training scripts\n\n"
SCRIPTS_HEAD = """\
`./dev reach --scripts --torch PYTHON_WITH_TORCH --write` runs training scripts of public repositories, as they are,
under `python -m weft.torch` and on PyTorch, and writes this part. Git brings them to a folder outside of the
repository; arguments alone make them shorter, and data sets that they would download are files of the same format with
drawn content. Both sides draw other random numbers, so that each script runs {seeds} times on each side, once as it is
and then with its seeds moved; it is whole if it comes to its end, and the means of what it prints there are no further
apart than the spread of its runs explains. Seconds are those of one processor, of the fastest run, the start of Python
among them; PyTorch runs eagerly where a script calls `torch.compile`.
[scripts/reach_scripts.ini](../scripts/reach_scripts.ini) has the list.

**{whole} of {count} scripts that were compared are whole**, of {listed} in the list ({day}, commit {commit}).

| script | what | from | weft ends at | PyTorch at | weft: s | PyTorch: s | compiles | |
|---|---|---|---|---|---|---|---|---|"""

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
