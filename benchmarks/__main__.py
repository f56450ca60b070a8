"""All benchmarks, one after the other: ./dev bench [NAME ...] [--torch PYTHON] [--real-time] [--write] [--list]

--write puts what they print into docs/benchmarks.md. Arguments for a single benchmark:
python -m benchmarks.NAME --help.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
BENCHMARKS = (
    "steps", "eager", "backward", "lazy", "capture", "first_call", "first_call_stages", "loops", "matrices",
    "orderings", "convolutions", "products", "calls", "split",
)  # fmt: skip
END = "<!-- end of figures -->"


def main() -> int:
    options = argparse.ArgumentParser(
        prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; default: all")
    options.add_argument("--torch", metavar="PYTHON", help="an interpreter that has torch, to compare with")
    options.add_argument(
        "--real-time", action="store_true",
        help="timed processes go before all other jobs, for a machine that is shared",
    )
    options.add_argument("--write", action="store_true", help="put the output into docs/benchmarks.md")
    options.add_argument("--list", action="store_true", help="say which benchmarks there are")
    given = options.parse_args()
    if given.list:
        for name in BENCHMARKS:
            print(f"{name:<18} {_first_line(name)}")
        return 0
    for name in given.names:
        if name not in BENCHMARKS:
            options.error(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
    failed = 0
    for name in given.names or BENCHMARKS:
        print(f"== {name}", flush=True)
        output, code = run(name, given.torch, given.real_time)
        failed = failed or code
        if given.write and not code:
            write(name, output)
    return failed


def run(name: str, torch: str | None, real_time: bool) -> tuple[str, int]:
    """One benchmark in a process of its own, its output shown as it comes; the output and the exit code."""
    environment = {
        **os.environ, **({"WEFT_BENCH_TORCH": torch} if torch else {}),
        **({"WEFT_BENCH_REAL_TIME": "1"} if real_time else {}),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.{name}"], cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    return "".join(lines), process.wait()


def write(name: str, output: str) -> None:
    """Replace a benchmark's block of figures in the page."""
    text = PAGE.read_text(encoding="utf-8")
    start = f"<!-- figures: {name} -->"
    head, found, rest = text.partition(start)
    if not found:
        raise SystemExit(f"{PAGE} has no block {start}")
    _, _, tail = rest.partition(END)
    block = f"{start}\nTaken on {datetime.date.today()}:\n\n```\n{output}```\n{END}"
    PAGE.write_text(head + block + tail, encoding="utf-8")


def _first_line(name: str) -> str:
    text = (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
    return text.lstrip('"').split("\n", 1)[0].rstrip('"')


if __name__ == "__main__":
    raise SystemExit(main())
