"""The page of an explanation: what it holds is what the explanation has, and it needs nothing from elsewhere."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.source_lines import line_of
from weft.explanations.page import page_content, page_of


def content_of(page: str) -> Any:
    """The data in a page."""
    match = re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return json.loads(match[1])


@pytest.fixture(scope="module")
def step() -> Any:
    model = weft.nn.Sequential(weft.nn.Linear(8, 16), weft.nn.GELU(), weft.nn.Linear(16, 3))
    opt = weft.optim.SGD(model.parameters(), lr=0.1)

    @weft.compile
    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = model(x).square().mean()  # the forward
        loss.backward()
        opt.step()
        return loss

    step(weft.ones(4, 8))
    return step


@pytest.fixture(scope="module")
def explanation(step: Any) -> Any:
    return weft.explain(step, weft.ones(4, 8))


@pytest.fixture(scope="module")
def page(explanation: Any) -> str:
    file = io.BytesIO()
    explanation.save(file)
    return file.getvalue().decode()


def test_a_page_has_the_kernels_of_the_program(explanation: Any, page: str) -> None:
    (shown,) = content_of(page)["explanations"]
    (program,) = shown["programs"]
    times = {k.name: k.seconds for k in explanation.programs[0].kernel_times}
    assert {k["name"] for k in program["kernels"]} == set(times)
    assert sum(k["seconds"] for k in program["kernels"]) == pytest.approx(
        sum(k.seconds for k in explanation.programs[0].kernel_times)
    )
    assert program["native"] <= program["seconds"]
    code = [k["code"] for k in program["kernels"] if k["code"]]  # (products may lie in the objects that are shipped)
    assert code and all("ret" in c and not re.search(r"^\s*\.(text|globl)", c, re.MULTILINE) for c in code)
    assert any("loop" in k["nest"] or "for" in k["nest"] for k in program["kernels"] if k["nest"])


def test_lines_lead_to_operators_and_source(step: Any, page: str) -> None:
    content = content_of(page)
    place = f"test_page.py:{line_of(step.function, '# the forward')}"
    (program,) = content["explanations"][0]["programs"]
    assert "aten::mm" in program["operators"][place]
    file, _, line = place.rpartition(":")
    assert "# the forward" in content["files"][file][int(line) - 1]
    assert any(place in k["lines"] for k in program["kernels"])


def test_the_timeline_and_the_memory_lie_within_the_run(page: str) -> None:
    (program,) = content_of(page)["explanations"][0]["programs"]
    count = len(program["kernels"])
    assert program["spans"]
    for kernel, thread, begin, end in program["spans"]:
        assert 0 <= kernel < count and thread >= 0
        assert -1e-4 <= begin <= end <= program["seconds"] + 1e-4
    held = [0] * (count + 1)
    for size, _, places, first, last in program["buffers"]:
        assert size > 0 and places and 0 <= first <= last <= count
        for at in range(first, last + 1):
            held[at] += size
    assert 0 < max(held) <= program["arena"]  # (slots of the arena are as large as their largest tenant)


def test_a_page_needs_nothing_from_elsewhere(page: str) -> None:
    markup = page.replace(json.dumps("http://www.w3.org/2000/svg"), "")
    assert not re.search(r"https?://|src=|@import|%[A-Z]+%", markup.split('id="content">')[0])
    assert not re.search(r"https?://|import\(|fetch\(", markup.split("</script>")[1])
    assert len(page) < 200_000


def test_texts_of_the_user_do_not_end_the_page(tmp_path: Path) -> None:
    """A line of source may hold any text, and two files may have one name."""
    functions = []
    for folder in ("a", "b"):
        path = tmp_path / folder / "model.py"
        path.parent.mkdir()
        path.write_text(f"def f(x):\n    return x * 2  # </script><b>%TITLE% {folder}\n")
        names: dict[str, Any] = {}
        exec(compile(path.read_text(), str(path), "exec"), names)
        compiled = weft.compile(names["f"])
        compiled(weft.ones(300))
        functions.append(weft.explain(compiled, weft.ones(300)))
    page = page_of(functions, title="<two>")
    content = content_of(page)
    assert sorted(content["files"]) == ["b/model.py", "model.py"]
    assert content["files"]["b/model.py"][1].endswith("</script><b>%TITLE% b")
    assert page.count("</script>") == 2 and "<title>&lt;two&gt;</title>" in page


def test_what_has_no_times_says_so() -> None:
    @weft.compile
    def noisy(x: Any) -> Any:
        weft.jit.script  # noqa: B018  (nothing: a name that is read)
        return x + 1

    explanation = weft.explain(noisy, weft.ones(3))
    explanation.programs[0]._measured = "a profiler is at work"
    (shown,) = page_content([explanation])["explanations"]
    assert shown["programs"][0]["not timed"] == "a profiler is at work"
