"""`pytest --cpu N`: which N tests take the most processor time, they and the processes they start, and which folders.
Time on the clock says little where other programs run too."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

_spent: dict[str, float] = {}  # seconds of each test, in the process that reports
_begun: dict[str, float] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu", type=int, default=0, metavar="N", help="list the N tests of the most processor time")


def _seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _begun[item.nodeid] = _seconds()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Any:
    result = yield
    item.user_properties.append(("cpu", _seconds() - _begun.pop(item.nodeid)))  # (goes to the process that reports)
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        _spent[report.nodeid] = float(dict(report.user_properties).get("cpu", 0.0))  # type: ignore[arg-type]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    count = config.getoption("--cpu")
    if not count:
        return
    folders: Counter[str] = Counter()
    for test, seconds in _spent.items():
        folders["/".join(test.partition("::")[0].split("/")[:-1][:3])] += seconds
    terminalreporter.section(f"processor time of tests: {sum(_spent.values()):.0f} s")
    for name, seconds in [*folders.most_common(), *Counter(_spent).most_common(count)]:
        terminalreporter.write_line(f"{seconds:8.2f} s  {name}")
