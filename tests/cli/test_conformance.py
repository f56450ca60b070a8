"""The page of conformance figures: what is counted, what is named, and what is said about why."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture
def conformance(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = spec_from_file_location("conformance", SCRIPTS / "conformance.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(
    op: str, status: str, mode: str = "eager", dtype: str = "float32", fails: Any = (), **checks: list[int]
) -> dict[str, Any]:
    return {
        "op": op, "status": status, "mode": mode, "dtype": dtype, "fails": list(fails), "checks": checks,
        "produced": sum(v[0] for v in checks.values()),
    }


RECORDS = [
    record("add", "ok", fwd=[8, 0], grad=[8, 0], out=[2, 0]),
    record("sum|dim", "fail", fails=[["grad", 3, "value", "far apart"]], fwd=[8, 0], grad=[7, 1]),
    record("sort", "fail", dtype="float16", fails=[["grad", 0, "value", "far apart"]], fwd=[8, 0], grad=[0, 8]),
    record("fold", "missing"),
    record("rand", "skipped"),
    record("add", "ok", "errors", errors=[3, 1], error_type=[2, 1]),
]


def test_what_is_counted(conformance: ModuleType) -> None:
    found = conformance.counts("eager", [r for r in RECORDS if r["mode"] == "eager" and r["dtype"] == "float32"])
    assert found == {"supported": "2/3", "fwd": "2/2", "grad": "1/2", "out": "1/1"}
    assert "grad" not in conformance.counts("meta", RECORDS[:2])


def test_the_page_names_every_difference_once(conformance: ModuleType) -> None:
    text = conformance.page(RECORDS, ["opinfo eager float32: all of it"], {"first_ops": {"add", "sum"}}, Namespace(n=8))
    assert "    opinfo eager float32: all of it" in text
    first, others = text.split("## first_ops")[1].split("## the others")
    assert (
        "| eager | float32 | 2/2 | 2/2 | 1/2 | 1/1 |" in first and "- grad: value (eager float32): `sum|dim`" in first
    )
    assert "Invalid calls: 3/4 raise, 2 of them" in first
    assert (
        "- not there: `fold`" in others and "- grad: value (eager float16): `sort`" in others and "rand" not in others
    )
    why = text.split("## Why")[1]
    assert "`sort`" in why and "weft is stable" in why and "`conj`" not in why


def test_a_missing_harness_or_interpreter_is_named(
    conformance: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert conformance.main(["--harness", str(tmp_path)]) == 2 and str(tmp_path) in capsys.readouterr().err
    (tmp_path / "opinfo.py").touch()
    assert conformance.main(["--harness", str(tmp_path), "--python", str(tmp_path / "none")]) == 2
    assert "give an interpreter that has torch" in capsys.readouterr().err


def test_a_record_says_when_and_of_which_commit_and_is_kept(conformance: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "opinfo.py").write_text(
        "import json, pathlib, sys\n"
        "pathlib.Path(sys.argv[sys.argv.index('--out') + 1]).write_text(json.dumps({'figures': [], 'records': []}))\n"
    )
    options = Namespace(keep=tmp_path / "kept", python=sys.executable, ops=None, n=8, no_gradgrad=True)
    record = conformance.measure(tmp_path, options, "lazy", "float32")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d, commit .+", record["measured"])
    (tmp_path / "opinfo.py").unlink()
    assert conformance.measure(tmp_path, options, "lazy", "float32") == record
