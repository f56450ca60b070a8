"""Measure weft against PyTorch's own operator database and write the table of docs/conformance.md.

The harness (opinfo.py and its lists of names) and an interpreter that has torch are not part of the project: --harness and --python say where they
are. Every mode runs as one process; a line is printed as each ends.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "conformance.md"
MODES = ("eager", "lazy", "compiled", "meta", "functionalized", "errors")
COLUMNS = ("supported", "forward ok", "grad ok", "gradgrad", "inplace", "inplace_grad", "method", "out", "noncontig", "alias", "strides")
SWEEP = "float64,int64,int32,bool,bfloat16,float16,complex64,complex128"
NAMES_SHOWN = 12
TITLES = {
    "supported": "supported", "forward ok": "forward", "grad ok": "gradient", "gradgrad": "second gradient", "inplace": "in-place",
    "inplace_grad": "its gradient", "method": "method", "out": "out=", "noncontig": "non-contiguous", "alias": "aliasing", "strides": "strides",
}


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    harness = Path(options.harness).resolve()
    problem = missing(harness, options.python)
    if problem:
        print(f"conformance: {problem}", file=sys.stderr)
        return 2
    wanted = [(mode, options.dtypes, not options.no_gradgrad) for mode in options.modes.split(",")]
    wanted += [("eager", SWEEP, False)] if options.sweep else []
    runs: dict[str, list[dict[str, Any]]] = {}
    for ops, (mode, dtypes, second) in itertools.product(options.ops, wanted):
        run = measure(harness, options, ops, mode, dtypes, second)
        if run is None:
            continue
        for figure in run["figures"]:
            print(f"{title(ops)}: {figure}", flush=True)
        runs.setdefault(ops, []).append(run)
    if not runs:
        return 1
    if options.write:
        Path(options.write).write_text(page(runs, options), encoding="utf-8")
        print(f"written: {options.write}")
    return 0


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="conformance", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--harness", default=str(ROOT.parent / "shared" / "conformance"), help="folder of opinfo.py (default: %(default)s)")
    parser.add_argument("--python", default=os.environ.get("WEFT_TORCH_PYTHON", sys.executable),
                        help="an interpreter with torch, scipy, expecttest and weft's dependencies (default: WEFT_TORCH_PYTHON, or this one)")
    parser.add_argument("--ops", nargs="+", default=["@first_ops.txt", "@next_ops.txt"], metavar="OPS",
                        help="lists, each names with commas between or @file in the harness's folder (default: %(default)s)")
    parser.add_argument("--modes", default=",".join(MODES), help="default: %(default)s")
    parser.add_argument("--dtypes", default="float32", help="names with commas between (default: %(default)s)")
    parser.add_argument("--sweep", action="store_true", help=f"then eager with {SWEEP} too, without second gradients")
    parser.add_argument("--n", type=int, default=8, help="samples for each operator (default: %(default)s)")
    parser.add_argument("--no-gradgrad", action="store_true", help="leave second gradients out")
    parser.add_argument("--write", default=str(TABLE), metavar="PATH", help="where the table goes; '' for nowhere (default: docs/conformance.md)")
    return parser.parse_args(arguments)


def missing(harness: Path, python: str) -> str | None:
    """What keeps the harness from running, in words, or None."""
    if not (harness / "opinfo.py").exists():
        return f"there is no opinfo.py in {harness}; give the folder of the harness with --harness"
    try:
        done = subprocess.run([python, "-c", "import torch, scipy, expecttest, numpy, llvmlite, ml_dtypes"], capture_output=True, text=True)
    except OSError as error:
        return f"{python} cannot be run ({error.strerror}); give an interpreter that has torch with --python"
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return f"{python} lacks something the harness needs ({last[0]}); give an interpreter that has torch with --python or WEFT_TORCH_PYTHON"
    return None


def measure(harness: Path, options: argparse.Namespace, ops: str, mode: str, dtypes: str, second: bool) -> dict[str, Any] | None:
    """The harness's record of one mode, or None after printing why there is none."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "record.json"
        command = [options.python, "opinfo.py", "--target", "weft", "--ops", ops, "--modes", mode, "--dtypes", dtypes,
                   "--n", str(options.n), "--out", str(out), *([] if second else ["--no-gradgrad"])]
        done = subprocess.run(command, cwd=harness, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode or not out.exists():
            print(f"conformance: the harness failed in mode {mode} (status {done.returncode}):\n{done.stdout[-2000:]}", file=sys.stderr)
            return None
        record: dict[str, Any] = json.loads(out.read_text())
        return record


# ---------------------------------------------------------------- the page


def title(ops: str) -> str:
    """A list of operators in a word."""
    return ops[1:].removesuffix(".txt") if ops.startswith("@") else ops


def page(runs: dict[str, list[dict[str, Any]]], options: argparse.Namespace) -> str:
    """The text of docs/conformance.md: a section for each list of operators."""
    torch = next(iter(runs.values()))[0]["torch"]
    head = [
        "# Conformance to PyTorch's operator database", "",
        f"Entries of PyTorch {torch}'s own database of operators and samples, run by weft and compared with PyTorch ({options.n} samples for each",
        "operator). `./dev conformance --python PYTHON_WITH_TORCH` measures it again and writes this page. No operator is treated specially for the",
        "harness. A value counts as different also where PyTorch's is the less exact one: some lines below are PyTorch's overflows in half precision.", "",
    ]
    return "\n".join(head) + "\n" + "\n".join(section(ops, found) for ops, found in runs.items())


def section(ops: str, runs: list[dict[str, Any]]) -> str:
    """The table of one list, then what differs."""
    lines = [f"## {title(ops)}", ""]
    used = [c for c in COLUMNS if any(c in counts(f) for run in runs for f in run["figures"])]
    lines.append("| mode | dtype | " + " | ".join(TITLES[c] for c in used) + " |")
    lines.append("|---|---|" + "---|" * len(used))
    for run in runs:
        lines += [row(figure, used) for figure in run["figures"] if not figure.startswith("opinfo errors")]
    for figure in (f for run in runs for f in run["figures"] if f.startswith("opinfo errors")):
        raised, same = re.findall(r"raised (\d+/\d+), same type (\d+)", figure)[0]
        lines += ["", f"Invalid calls: {raised} raise, {same} of them with PyTorch's type of exception."]
    return "\n".join([*lines, "", *failures(runs)]) + "\n"


def counts(figure: str) -> dict[str, str]:
    """`supported 3/4` and its like, by name."""
    return {name: value for name, value in re.findall(r"(?:: |, )([a-z_ ]+?) (\d+(?:/\d+)?)(?=,| \(|$)", figure)}


def row(figure: str, used: list[str]) -> str:
    mode, dtype = re.findall(r"^opinfo (\S+) (\S+):", figure)[0]
    found = counts(figure)
    return f"| {mode} | {dtype} | " + " | ".join(found.get(c, "") for c in used) + " |"


def failures(runs: list[dict[str, Any]]) -> list[str]:
    """What failed, by mode and reason."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for record in (r for run in runs for r in run["records"]):
        if record["status"] in ("ok", "skipped"):
            continue
        reasons = {f"{check}: {cause}" for check, _, cause, _ in record["fails"]} or {record.get("reason", record["status"])}
        for reason in sorted(reasons):
            groups.setdefault((record["mode"], record["dtype"], reason), []).append(record["op"])
    lines = []
    for (mode, dtype, reason), names in groups.items():
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        lines.append(f"- {mode}, {dtype}, {reason}: {', '.join(f'`{n}`' for n in names[:NAMES_SHOWN])}{more}")
    return ["### What differs", "", *(lines or ["Nothing."])]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
