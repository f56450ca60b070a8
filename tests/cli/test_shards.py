"""`./dev test` runs one shard of the suite: every test, and a part of its cases; all shards are all cases."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests import shards
from tests.cli.test_dev import dev  # noqa: F401 (a fixture)

CASES = [f"a.py::plain{i}" for i in range(3)] + [f"a.py::test[{i}]" for i in range(12)] + ["b.py::test[x]"]


def chosen(kth: int, count: int, names: list[str]) -> list[str]:
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    config: Any = SimpleNamespace(
        getoption=lambda name: (kth, count), hook=SimpleNamespace(pytest_deselected=lambda items: None)
    )
    shards.pytest_collection_modifyitems(config, items)
    return [item.nodeid for item in items]


def test_every_test_is_in_every_shard_and_every_case_in_one() -> None:
    parts = [chosen(k, 5, CASES) for k in range(5)]
    assert sorted({name for part in parts for name in part}) == sorted(CASES)
    always = {name for name in CASES if all(name in part for part in parts)}
    assert always == {*CASES[:3], "a.py::test[0]", "b.py::test[x]"}
    assert sum(map(len, parts)) == 5 * len(always) + len(CASES) - len(always)


@pytest.mark.parametrize("text", ["5/5", "1", "-1/3", "a/b", ""])
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no K/N"):
        shards.shard(text)


def test_the_whole_suite_is_run_by_shards_unless_all_is_asked(
    dev: Any, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(dev, "run_python", lambda *arguments: calls.append(arguments) or 0)
    monkeypatch.setattr(dev, "commit_number", lambda: 13)
    for arguments in ([], ["--durations", "40"], ["--all"], ["tests/text"], ["-k", "view"], ["--shard", "1/2"]):
        dev.test(arguments)
    shard = [call[call.index("--shard") + 1] if "--shard" in call else "" for call in calls]
    assert shard == [f"{13 % dev.SHARDS}/{dev.SHARDS}"] * 2 + ["", "", "", "1/2"]
    assert not any("--all" in call for call in calls)
