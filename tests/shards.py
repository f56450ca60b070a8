"""`pytest --shard K/N`: the first case of each parametrized test, and of its other cases the Kth of every N.

`./dev test` runs one shard of the suite, which the commit chooses, `./dev test --all` every case. A shard chooses among
tests and draws nothing: one that fails is a fault, in whatever shard it lies.
"""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shard",
        metavar="K/N",
        type=shard,
        help="run the first case of each parametrized test, and the Kth (from 0) of every N of its others",
    )


def shard(text: str) -> tuple[int, int]:
    kth, slash, count = text.partition("/")
    if not (slash and kth.isdecimal() and count.isdecimal() and int(kth) < int(count)):
        raise ValueError(f"{text!r} is no K/N with 0 <= K < N")
    return int(kth), int(count)


def pytest_report_header(config: pytest.Config) -> str | None:
    if config.getoption("--shard") is None:
        return None
    kth, count = config.getoption("--shard")
    return f"shard {kth}/{count} of the cases of parametrized tests (`./dev test --all` runs every case)"


@pytest.hookimpl(trylast=True)  # behind -k, -m and --deselect
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--shard") is None:
        return
    kth, count = config.getoption("--shard")
    cases: Counter[str] = Counter()
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        test = item.nodeid.partition("[")[0]
        number = cases[test]
        cases[test] += 1
        (chosen if number == 0 or (number - 1) % count == kth else others).append(item)
    items[:] = chosen
    config.hook.pytest_deselected(items=others)
