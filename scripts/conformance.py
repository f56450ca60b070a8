"""Measure weft against PyTorch's own operator database and write the table of docs/conformance.md.

The harness (opinfo.py and its lists of names) and an interpreter that has torch are not part of the project: --harness
and --python say where they are. Every mode and dtype runs as one process over the whole database (or --ops of it);
a line is printed as each ends. With --keep each record stays in a folder, and what is there already is not measured
again, so that the hours can be spent in pieces.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from conformance_reasons import REASONS

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "conformance.md"
MODES = ("eager", "lazy", "compiled", "meta", "functionalized", "errors")
CHECKS = ("fwd", "grad", "gradgrad", "inplace", "inplace_grad", "method", "out", "noncontig", "alias", "strides")
LISTS = ("first_ops", "next_ops")
SWEEP = "float64,int64,int32,bool,bfloat16,float16,complex64,complex128"
WITH_GRADIENTS = ("eager", "lazy", "compiled")
DONE = ("ok", "fail")
TITLES = {
    "fwd": "forward", "grad": "gradient", "gradgrad": "second gradient", "inplace": "in-place",
    "inplace_grad": "its gradient", "method": "method", "out": "out=", "noncontig": "non-contiguous",
    "alias": "aliasing", "strides": "strides",
}
Record = dict[str, Any]


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    harness = Path(options.harness).resolve()
    problem = missing(harness, options.python)
    if problem:
        print(f"./dev conformance: {problem}", file=sys.stderr)
        return 2
    records: list[Record] = []
    figures: list[str] = []
    for mode, dtype in runs(options):
        run = measure(harness, options, mode, dtype)
        if run is None:
            continue
        found = [f"{figure}; {run['measured']}" if "measured" in run else figure for figure in run["figures"]]
        print("\n".join(found), flush=True)
        figures += found
        records += run["records"]
    if not records:
        return 1
    if options.write:
        Path(options.write).write_text(page(records, figures, names_in(harness), options), encoding="utf-8")
        print(f"written: {options.write}")
    return 0


def runs(options: argparse.Namespace) -> list[tuple[str, str]]:
    """The modes and dtypes to measure, in order."""
    first = [
        (mode, dtype) for mode in options.modes.split(",")
        for dtype in (["float32"] if mode == "errors" else options.dtypes.split(","))
    ]
    return first + [("eager", dtype) for dtype in SWEEP.split(",") if options.sweep and ("eager", dtype) not in first]


def names_in(harness: Path) -> dict[str, set[str]]:
    """The names of operators in each of the harness's lists."""
    return {
        name: set((harness / f"{name}.txt").read_text().split()) for name in LISTS if (harness / f"{name}.txt").exists()
    }


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev conformance", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--harness", default=str(ROOT.parent / "shared" / "conformance"),
        help="folder of opinfo.py (default: %(default)s)",
    )
    parser.add_argument(
        "--python", default=os.environ.get("WEFT_TORCH_PYTHON", sys.executable),
        help=(
            "an interpreter with torch, scipy, expecttest and weft's dependencies (default: WEFT_TORCH_PYTHON, "
            "or this one)"
        ),
    )
    parser.add_argument(
        "--ops", help="names with commas between, or @file in the harness's folder (default: the whole database)"
    )
    parser.add_argument("--modes", default=",".join(MODES), help="default: %(default)s")
    parser.add_argument("--dtypes", default="float32", help="names with commas between (default: %(default)s)")
    parser.add_argument("--sweep", action="store_true", help=f"then eager with {SWEEP} too, without second gradients")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER",
        help="keep every record there, and measure only what it does not have yet",
    )
    parser.add_argument("--n", type=int, default=8, help="samples for each operator (default: %(default)s)")
    parser.add_argument("--no-gradgrad", action="store_true", help="leave second gradients out")
    parser.add_argument(
        "--write", default=str(TABLE), metavar="PATH",
        help="where the table goes; '' for nowhere (default: docs/conformance.md)",
    )
    return parser.parse_args(arguments)


def missing(harness: Path, python: str) -> str | None:
    """What keeps the harness from running, in words, or None."""
    if not (harness / "opinfo.py").exists():
        return f"there is no opinfo.py in {harness}; give the folder of the harness with --harness"
    try:
        done = subprocess.run(
            [python, "-c", "import torch, scipy, expecttest, numpy, llvmlite, ml_dtypes"],
            capture_output=True, text=True,
        )
    except OSError as error:
        return f"{python} cannot be run ({error.strerror}); give an interpreter that has torch with --python"
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return (
            f"{python} lacks something the harness needs ({last[0]}); give an interpreter that has torch with --python "
            "or WEFT_TORCH_PYTHON"
        )
    return None


def measure(harness: Path, options: argparse.Namespace, mode: str, dtype: str) -> dict[str, Any] | None:
    """The harness's record of one mode and dtype, or None after printing why there is none."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        kept = (options.keep or Path(folder)).absolute() / f"{mode}-{dtype}.json"
        kept.parent.mkdir(parents=True, exist_ok=True)
        if not kept.exists():
            second = [] if (mode, dtype) == ("eager", "float32") and not options.no_gradgrad else ["--no-gradgrad"]
            command = [
                options.python, "opinfo.py", "--target", "weft", *(["--ops", options.ops] if options.ops else []),
                "--modes", mode, "--dtypes", dtype, "--n", str(samples(options, mode)), "--out", str(kept), *second,
            ]
            done = subprocess.run(
                command, cwd=harness, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            if done.returncode or not kept.exists():
                print(
                    (
                        f"conformance: the harness failed in mode {mode} (status {done.returncode}):\n"
                        f"{done.stdout[-2000:]}"
                    ),
                    file=sys.stderr,
                )
                return None
            kept.write_text(json.dumps({**json.loads(kept.read_text()), "measured": now_and_here()}))
        record: dict[str, Any] = json.loads(kept.read_text())
        return record


def now_and_here() -> str:
    """The day and the commit, for the record."""
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return f"{datetime.now(timezone.utc):%Y-%m-%d}, commit {done.stdout.strip() or 'unknown'}"


def samples(options: argparse.Namespace, mode: str) -> int:
    """How many samples of each operator are run: half as many where each is a program to compile."""
    return max(options.n // 2, 1) if mode == "compiled" else int(options.n)


# ---------------------------------------------------------------- the page


def page(records: list[Record], figures: list[str], lists: dict[str, set[str]], options: argparse.Namespace) -> str:
    """The text of docs/conformance.md: a section for each list of operators, one for all others,
    and why some differ."""
    whole = [
        "## The whole database", "", "What the harness itself prints, and when and of which commit:", "",
        *(f"    {figure}" for figure in figures), "",
    ]
    head = [
        "# Conformance to PyTorch's operator database", "",
        "Entries of PyTorch 2.13's own database of operators and samples, run by weft and compared with PyTorch "
        f"({options.n} samples for each",
        f"operator, {samples(options, 'compiled')} where it is compiled). `./dev conformance --python "
        "PYTHON_WITH_TORCH --sweep` measures it again and writes this page. No operator is treated specially",
        (
            "for the harness. The database has 702 entries, of which 631 can be checked: not those of sparse tensors, "
            "of private names and of random numbers."
        ),
        "",
    ]
    left = [r for r in records if not any(name_of(r) in names for names in lists.values())]
    sections = {
        **{title: [r for r in records if name_of(r) in names] for title, names in lists.items()}, "the others": left
    }
    text = "\n".join(section(title, found) for title, found in sections.items() if found)
    return "\n".join([*head, *whole]) + "\n" + text + "\n" + reasons(records)


def name_of(record: Record) -> str:
    """An entry's operator, without its variant."""
    return str(record["op"]).split("|", 1)[0]


def section(title: str, records: list[Record]) -> str:
    """The table of one list, then what differs."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["mode"], record["dtype"]), []).append(record)
    tables = {key: counts(key[0], found) for key, found in groups.items() if key[0] != "errors"}
    used = [c for c in CHECKS if any(c in table for table in tables.values())]
    lines = [
        f"## {title}", "", "| mode | dtype | supported | " + " | ".join(TITLES[c] for c in used) + " |",
        "|---|---|---|" + "---|" * len(used),
    ]
    lines += [
        f"| {mode} | {dtype} | {table['supported']} | " + " | ".join(table.get(c, "") for c in used) + " |"
        for (mode, dtype), table in tables.items()
    ]
    for (mode, _), found in groups.items():
        if mode == "errors":
            raised, same = (
                [sum(r["checks"].get(c, [0, 0])[i] for r in found) for i in (0, 1)] for c in ("errors", "error_type")
            )
            lines += [
                "",
                f"Invalid calls: {raised[0]}/{sum(raised)} raise, {same[0]} of them with PyTorch's type of exception.",
            ]
    return "\n".join([*lines, "", *failures(records)]) + "\n"


def counts(mode: str, records: list[Record]) -> dict[str, str]:
    """How many entries are supported, and how many pass each check of those that have it: `3/4`."""
    tried = [r for r in records if r["status"] != "skipped"]
    supported = [r for r in tried if r["produced"] or r["status"] in DONE]
    table = {"supported": f"{len(supported)}/{len(tried)}"}
    for check in CHECKS:
        have = [r for r in supported if sum(r["checks"].get(check, [0, 0]))]
        if have or (check == "fwd" and tried):
            passed = sum(not r["checks"][check][1] and r["status"] in DONE for r in have)
            table[check] = f"{passed}/{len(have)}"
    return table if mode in WITH_GRADIENTS else {c: n for c, n in table.items() if c not in ("grad", "gradgrad")}


def failures(records: list[Record]) -> list[str]:
    """What failed, by reason, with the dtypes and modes."""
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    places: dict[tuple[str, str], list[str]] = {}
    there = {r["op"] for r in records if r["status"] != "missing"}
    for record in records:
        if record["status"] in ("ok", "skipped") or (record["status"] == "missing" and record["op"] in there):
            continue
        causes = (
            {f"{check}: {cause}" for check, _, cause, _ in record["fails"]}
            or {"not there" if record["status"] == "missing" else record["status"]}
        )
        for cause in sorted(causes):
            places.setdefault((record["op"], cause), []).append(f"{record['mode']} {record['dtype']}")
    for (op, cause), found in places.items():
        groups.setdefault((cause, () if cause == "not there" else tuple(found)), []).append(op)
    lines = []
    for (cause, found), ops in sorted(groups.items()):
        where = f" ({', '.join(found)})" if found else ""
        lines.append(f"- {cause}{where}: {quoted(sorted(ops))}")
    return ["### What differs", "", *(lines or ["Nothing."])]


def reasons(records: list[Record]) -> str:
    """Why entries differ: the lines of REASONS about operators that do."""
    differ = {name_of(r) for r in records if r["status"] not in ("ok", "skipped")}
    lines = [f"- {quoted(names)}: {why}" for names, why in REASONS if differ.intersection(names)]
    return "\n".join(["## Why", "", *lines]) + "\n"


def quoted(names: Iterable[str]) -> str:
    """Names as code, with commas between."""
    return ", ".join(f"`{n}`" for n in names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
