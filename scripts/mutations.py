"""Plant faults in a copy of weft, one at a time, and let the random programs find them.

    ./dev mutations [--only WORDS] [--seed SEED] [--sound] [--table]

Each line of mutations.txt is a change of the code that a person could make: a class of faults, the file, the change in
words, the text and what takes its place, the test that finds it, and the seed and width that did. A fault that no
program finds is a gap of the generators.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_name("mutations.txt")
CLASSES = {
    1: "draws", 2: "sizes that only the run knows", 3: "containers and objects", 4: "history between calls",
    5: "subclasses", 6: "traces and scripts", 7: "staleness", 8: "code", 9: "values", 11: "patience",
}
SECONDS = 300  # for one mutation


@dataclass(frozen=True)
class Mutation:
    """A change of one place in one file. seed, width: WEFT_TEST_SEED and WEFT_AGREE of the run that found it."""

    kind: int
    words: str
    file: str
    old: str
    new: str
    test: str
    seed: int
    width: int

    def applied(self, source: str) -> str:
        """The file with the change. Raises ValueError where the text to replace is not there exactly once."""
        count = source.count(self.old)
        if count != 1:
            raise ValueError(f"mutation {self.words!r}: {self.file} has its text {count} times, not once:\n{self.old}")
        return source.replace(self.old, self.new)


def mutations() -> list[Mutation]:
    """All that are listed."""
    found = []
    for block in LIST.read_text(encoding="utf-8").split("\n== ")[1:]:
        head, _, rest = block.partition("\n")
        kind, _, words = head.partition(" ")
        facts, _, texts = rest.partition("\n<<<<\n")
        file, test, seed, width = facts.split()
        old, _, new = texts.rstrip("\n").removesuffix("\n>>>>").partition("\n====")
        found.append(Mutation(int(kind), words, file, old, new.removeprefix("\n"), test, int(seed), int(width)))
    return found


def run(mutation: Mutation, seed: int | None, is_planted: bool) -> tuple[bool, str]:
    """Whether a test fails (with the fault, if it is planted), and the last lines of what it says."""
    with tempfile.TemporaryDirectory(prefix="weft-mutation-") as folder:
        copy = Path(folder)
        for name in ("weft", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        if is_planted:
            target = copy / mutation.file
            target.write_text(mutation.applied(target.read_text(encoding="utf-8")), encoding="utf-8")
        environment = {
            **os.environ, "PYTHONPATH": folder, "WEFT_TEST_SEED": str(mutation.seed if seed is None else seed),
            "WEFT_AGREE": str(mutation.width), "WEFT_STALE": str(20 * mutation.width),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", mutation.test]
        try:
            done = subprocess.run(
                command, cwd=copy, env=environment, capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            return not is_planted, f"nothing within {SECONDS} s"
    said = (done.stdout + done.stderr).splitlines()
    lines = [line for line in said if line.startswith(("E  ", "FAILED", "ERROR"))]
    return done.returncode == 1, "\n".join(line[:300] for line in lines[:3] + lines[-1:])


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev mutations", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="those whose words, file or class have this in them")
    parser.add_argument("--seed", type=int, help="another seed than the one that is listed")
    parser.add_argument("--sound", action="store_true", help="plant nothing: the same tests and seeds must pass")
    parser.add_argument("--table", action="store_true", help="print the list as the page of the docs has it")
    options = parser.parse_args()
    chosen = [m for m in mutations() if options.only in f"{m.kind} {CLASSES[m.kind]} {m.words} {m.file}"]
    if options.sound:  # the same programs once
        chosen = list({(m.test, m.seed, m.width): m for m in reversed(chosen)}.values())[::-1]
    if options.table:
        print(table(chosen))
        return 0
    missed = 0
    for mutation in chosen:
        start = time.monotonic()
        has_failed, text = run(mutation, options.seed, not options.sound)
        missed += has_failed is options.sound
        verdict = ("found" if has_failed else "NOT FOUND") if not options.sound else "FAILS" if has_failed else "passes"
        print(f"{verdict} in {time.monotonic() - start:.0f} s: {CLASSES[mutation.kind]}: {mutation.words}", flush=True)
        print(text, flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} {'tests pass' if options.sound else 'faults were found'}")
    return int(missed > 0)


def table(chosen: list[Mutation]) -> str:
    """Rows of Markdown."""
    rows = ["| class | the change | file | found by | seed, width |", "| --- | --- | --- | --- | --- |"]
    for m in chosen:
        test = m.test.removeprefix("tests/").replace("|", "\\|")
        cells = (CLASSES[m.kind], m.words, m.file.removeprefix("weft/"), test, f"{m.seed}, {m.width}")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
