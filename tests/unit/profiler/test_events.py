"""What a profiler sees: each call once, in its place, with the user's lines; nothing while nobody looks."""

from __future__ import annotations

import itertools
import json
import random
import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import weft
import weft.nn.functional as F
from tests.source_lines import line_of
from weft.profiler import EventList, FunctionEvent, ProfilerAction, profile, record_function, schedule
from weft.runtime.pool import get_num_threads, set_num_threads
from weft.runtime.trace import COUNT, RECORD, Trace, decoded
from weft.support.errors import ShapeError, StateError, ValueProblem
from weft.support.observers import observers


def named(events: Any) -> Counter[str]:
    return Counter(e.name for e in events)


def test_each_operator_is_one_event_with_its_shapes() -> None:
    n = random.randint(2, 9)
    x, y = weft.ones(n, 3), weft.ones(3)
    with profile(record_shapes=True) as prof:
        for _ in range(n):
            z = x * y
        z += 1
        z[0]
        z[0, 1:].sum()
        weft.zeros(n)
        z[weft.tensor([0, 1])] = 2.0
        F.relu(z, inplace=True)
    names = named(prof.events())
    assert names["aten::mul"] == n and names["aten::add_"] == 1 and names["aten::sum"] == 1
    assert names["aten::select"] == 2 and names["aten::slice"] == 1 and names["aten::relu_"] == 1
    assert names["aten::index_put_"] == 1
    mul = next(e for e in prof.events() if e.name == "aten::mul")
    assert mul.input_shapes == [[n, 3], [3]]


def test_nothing_is_watched_outside_of_the_block() -> None:
    x = weft.ones(3)
    with profile() as prof:
        x + x
    x * x
    assert observers.programs is None and observers.steps is None
    assert set(named(prof.events())) == {"aten::add"}
    with profile() as second:
        pass
    assert len(second.events()) == 0 and x[0].item() == 1


def test_composites_hold_what_they_are_made_of() -> None:
    x = weft.randn(4, 5, requires_grad=True)
    with profile() as prof:
        loss = F.cross_entropy(x, weft.tensor([0, 1, 2, 3]))
        loss.backward()
    events = prof.events()
    outer = next(e for e in events if e.name == "nn::cross_entropy")
    assert {c.name for c in outer.cpu_children} == {"aten::_log_softmax", "aten::nll_loss"}
    assert outer.self_cpu_time_total <= outer.cpu_time_total
    backward = [e.name for e in events if e.kind == "node"]
    assert backward == ["NllLossBackward0", "LogSoftmaxBackward0", "AccumulateGrad"]


def test_blocks_and_functions_under_a_name() -> None:
    @record_function("named")
    def function(x: Any) -> Any:
        return x + 1

    @record_function("steps")
    def generator() -> Any:
        yield weft.ones(1)
        yield weft.ones(1) * 2

    with profile() as prof, record_function("outer", "epoch 1"):
        function(weft.ones(2))
        list(generator())
    names = named(prof.events())
    assert names["outer(epoch 1)"] == 1 and names["named"] == 1 and names["steps"] == 2 + 1  # (its end is a turn too)
    inner = next(e for e in prof.events() if e.name == "aten::add")
    assert inner.cpu_parent is not None and inner.cpu_parent.name == "named"


def test_lines_of_operators_and_of_backward_nodes() -> None:
    def body(w: Any) -> None:
        y = w.sin()  # here
        y.sum().backward()

    with profile(with_stack=True) as prof:
        body(weft.ones(3, requires_grad=True))
    here = line_of(body, "# here")
    for name in ("aten::sin", "SinBackward0"):
        (event,) = [e for e in prof.events() if e.name == name]
        assert [line.line for line in event.lines] == [here] and event.stack == [f"{__file__}({here})"]


@pytest.fixture(scope="module")
def step() -> Any:
    model = weft.nn.Sequential(weft.nn.Linear(8, 16), weft.nn.Tanh(), weft.nn.Linear(16, 2))
    opt = weft.optim.SGD(model.parameters(), lr=0.1)

    @weft.compile
    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    step(weft.ones(4, 8))
    return step


def test_kernels_of_a_compiled_step(step: Any) -> None:
    x, calls, captures = weft.ones(random.randint(2, 30), 8), random.randint(2, 4), weft.counters.captures
    before = weft.counters.kernels
    with profile() as prof:
        for _ in range(calls):
            step(x)
    assert weft.counters.captures == captures
    events = prof.events()
    kernels = [e for e in events if e.kind == "kernel"]
    assert len(kernels) == weft.counters.kernels - before and len(kernels) % calls == 0
    outer = [e for e in events if e.kind == "call"]
    programs = [e for e in events if e.kind == "program"]
    assert [e.name for e in outer] == ["compiled step"] * calls and [p.cpu_parent for p in programs] == outer
    lines = {line.line for k in kernels for line in k.lines}
    source = step.function
    assert lines <= {line_of(source, t) for t in ("model(x)", "loss.backward()", "opt.step()")} and len(lines) == 3
    assert all(line.file == __file__ for k in kernels for line in k.lines)
    for program in programs:
        own = [k for k in kernels if k.cpu_parent is program]
        assert len(own) == len(kernels) // calls
        assert sum(k.cpu_time_total for k in own) <= program.cpu_time_total * 1.01 + 5
        assert all(a.end <= b.start + 1e-3 for a, b in itertools.pairwise(own))
    assert all(k.bytes > 0 for k in kernels) and any(k.operations > 0 for k in kernels)


def test_bytes_follow_the_sizes_of_the_call(step: Any) -> None:
    def bytes_for(rows: int) -> int:
        with profile() as prof:
            step(weft.ones(rows, 8))
        return sum(e.bytes for e in prof.events() if e.kind == "kernel")

    a, b, c = map(bytes_for, (10, 20, 30))
    assert b - a == c - b > 0


def test_parts_of_kernels_on_other_threads() -> None:
    @weft.compile
    def work(x: Any) -> Any:
        return (x.sin() * x.exp()).sum(dim=1)

    before = get_num_threads()
    set_num_threads(2)
    try:
        x = weft.randn(2000, 300)
        work(x)
        with profile() as prof:
            work(x)
    finally:
        set_num_threads(before)
    parts = [e for e in prof.events() if e.kind == "part"]
    owners = {p.cpu_parent for p in parts}
    assert len(parts) > 1 and all(o is not None and o.kind == "kernel" for o in owners)
    for owner in owners:
        assert owner is not None
        own = [p for p in parts if p.cpu_parent is owner]
        assert len({p.name for p in own}) == len(own)  # each part once
        assert all(owner.start - 1 <= p.start and p.end <= owner.end + 1 for p in own)
    assert not any(e.kind == "part" for e in prof.key_averages())
    assert len({p.thread for p in parts}) <= 2


def test_what_has_no_room_is_counted() -> None:
    room = random.randint(1, 5)
    trace = Trace(room)
    trace.words[COUNT] = room + 3
    records, dropped = trace.take()
    assert decoded(records).shape == (room, RECORD) and dropped == 3
    assert trace.take() == (b"", 0)


def test_loops_of_programs_note_each_kernel_each_time() -> None:
    @weft.compile
    def loop(x: Any, n: Any) -> Any:
        return weft.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, (y @ y).tanh()), (weft.tensor(0), x))[1]

    x, n = weft.eye(20), random.randint(3, 7)
    loop(x, weft.tensor(1))
    with profile() as prof:
        loop(x, weft.tensor(n))
    products = [e for e in prof.events() if e.kind == "kernel" and "_mm_" in e.name]
    assert len(products) == n


def test_what_runs_in_numpy_inside_of_a_program_is_named() -> None:
    @weft.compile
    def host(x: Any) -> Any:
        return weft.linalg.eigvals(x * 2).real  # here

    x = weft.eye(3)
    host(x)
    with profile() as prof:
        host(x)
    steps = [e for e in prof.events() if e.kind == "numpy"]
    assert steps and all(s.cpu_parent is not None and s.cpu_parent.kind == "program" for s in steps)
    assert {line.line for s in steps for line in s.lines} == {line_of(host.function, "# here")}


def test_split_lazy_and_captured_backward_calls_show_their_kernels() -> None:
    def work(x: Any) -> Any:
        return (x.sin() @ x).exp().sum()

    split, w = weft.compile(work, split=True), weft.randn(16, 16, requires_grad=True)

    def lazily(x: Any) -> Any:
        return work(x.to("lazy")).item()

    def backward(x: Any) -> None:
        with weft.compiled_autograd.enable():
            (x @ w).exp().sum().backward()

    for run in (split, lazily, backward):
        x = weft.randn(16, 16)
        for _ in range(4):
            run(x)
        with profile() as prof:
            run(x)
        kernels = [e for e in prof.events() if e.kind == "kernel"]
        assert kernels and all(k.lines and k.lines[0].file == __file__ for k in kernels), run


def test_a_capture_is_not_a_run_and_keeps_its_guards() -> None:
    @weft.compile
    def indexed(x: Any) -> Any:
        return x[0] * 2 + x[1:].sum()

    captures, x = weft.counters.captures, weft.ones(3, 3)
    with profile() as prof:
        indexed(x)
    indexed(x)
    with profile():
        indexed(x)
    assert weft.counters.captures == captures + 1
    assert not [e for e in prof.events() if e.kind == "operator"]


def test_memory_of_operators() -> None:
    n = random.randint(1000, 2000)
    x = weft.ones(n)
    assert not weft.memory.is_counting()
    with profile(profile_memory=True) as prof:
        y = x * 2
        y.add_(1)
        y.view(1, n)
    assert not weft.memory.is_counting()
    rows = {e.key: e for e in prof.key_averages()}
    assert rows["aten::mul"].self_cpu_memory_usage == 4 * n
    assert rows["aten::add_"].self_cpu_memory_usage == rows["aten::view"].self_cpu_memory_usage == 0
    assert "CPU Mem" in prof.key_averages().table()


def test_a_schedule_says_what_is_recorded() -> None:
    ready: list[tuple[int, Counter[str]]] = []
    prof = profile(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda p: ready.append((p.step_num, named(p.events()))),
    )
    x = weft.ones(2)
    with prof:
        for i in range(12):
            for _ in range(i):
                x * x
            prof.step()
    assert [at for at, _ in ready] == [4, 8]
    assert ready[0][1] == {"aten::mul": 2 + 3, "ProfilerStep#2": 1, "ProfilerStep#3": 1}
    assert ready[1][1]["aten::mul"] == 6 + 7
    assert prof.current_action is ProfilerAction.NONE


def test_two_profiles_at_once_are_refused() -> None:
    with profile(), pytest.raises(StateError, match="another profiler"), profile():
        pass
    prof = profile()
    with pytest.raises(StateError, match="before its end"):
        prof.events()
    with pytest.warns(UserWarning, match="nothing but the CPU"):
        profile(activities=[weft.profiler.ProfilerActivity.CUDA])


def test_all_threads_are_seen() -> None:
    x = weft.ones(3)
    with profile() as prof:
        other = threading.Thread(target=lambda: x.exp(), name="other")
        other.start()
        other.join()
        x.sin()
    threads = {e.name: e.thread for e in prof.events()}
    assert threads["aten::exp"] != threads["aten::sin"] == threading.get_ident()


def test_an_error_ends_the_block_and_is_seen() -> None:
    with pytest.raises(ShapeError), profile() as prof:
        weft.ones(2) + weft.ones(3)
    assert named(prof.events())["aten::add"] == 1 and observers.programs is None


# ---- what is made of them
def test_averages_by_name_shape_and_line() -> None:
    a, b = weft.ones(2), weft.ones(3)
    with profile(record_shapes=True, with_stack=True) as prof:
        for x in (a, b, b):
            x.sin()
        a.sin()
    (all_,) = prof.key_averages()
    assert all_.count == 4 and all_.cpu_time == pytest.approx(all_.cpu_time_total / 4)
    assert all_.cpu_time_total == pytest.approx(sum(e.cpu_time_total for e in prof.events()))
    assert sorted(e.count for e in prof.key_averages(group_by_input_shape=True)) == [2, 2]
    assert sorted(e.count for e in prof.key_averages(group_by_stack_n=1)) == [1, 3]
    assert prof.key_averages().total_average().count == 4


def test_time_within_its_like_is_counted_once() -> None:
    outer = FunctionEvent(1, "f", "user", 0, 0.0, 10.0)
    inner = FunctionEvent(2, "f", "user", 0, 2.0, 5.0, cpu_parent=outer)
    outer.cpu_children.append(inner)
    (row,) = EventList([outer, inner]).key_averages()
    assert row.count == 2 and row.cpu_time_total == 10.0 and row.self_cpu_time_total == 10.0


def test_the_table_has_pytorchs_columns() -> None:
    with profile() as prof:
        x = weft.ones(50)
        for _ in range(3):
            x = x * 2
        x.sum()
    averages = prof.key_averages()
    table = averages.table(sort_by="count", row_limit=1, header="Title")
    title, _, names, _, row, *_ = table.splitlines()
    assert title == "Title" and table.count("aten::") == 1
    columns = re.split(r"\s{2,}", names.strip())
    assert columns == [
        "Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"
    ]
    assert re.split(r"\s{2,}", row.strip())[0] == "aten::mul" and row.endswith("3")
    assert "Self CPU time total:" in table
    with pytest.raises(ValueProblem, match=r"did you mean count"):
        averages.table(sort_by="counts")


def test_a_trace_for_chrome(tmp_path: Path) -> None:
    with profile(record_shapes=True) as prof, record_function("block"):
        weft.ones(2, 3).exp()
    path = tmp_path / "trace.json"
    prof.add_metadata("run", "seven")
    prof.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    boxes = {e["name"]: e for e in trace["traceEvents"] if e["ph"] == "X"}
    assert trace["run"] == "seven" and boxes["aten::exp"]["args"]["Input Dims"] == [[2, 3]]
    block, exp = boxes["block"], boxes["aten::exp"]
    assert block["ts"] <= exp["ts"] and exp["ts"] + exp["dur"] <= block["ts"] + block["dur"]
    prof.export_stacks(str(tmp_path / "stacks"))
    assert "block;aten::exp " in (tmp_path / "stacks").read_text() or exp["dur"] < 1
    weft.profiler.tensorboard_trace_handler(str(tmp_path / "board"), "me")(prof)
    assert [p.name.split(".")[0] for p in (tmp_path / "board").iterdir()] == ["me"]




def test_the_older_profiler_of_autograd() -> None:
    x = weft.randn(8, 8)
    profiler = weft.autograd.profiler
    with profiler.profile(use_kineto=True, record_shapes=True) as prof, profiler.record_function("mine"):
        (x @ x).relu()
    names = [event.name for event in prof.function_events]
    assert "mine" in names and "aten::relu" in names and "aten::relu" in prof.table(sort_by="self_cpu_time_total")
    assert prof.self_cpu_time_total == prof.key_averages().self_cpu_time_total > 0
    assert prof.total_average().count >= 3 and str(prof) == prof.table()
    with pytest.warns(UserWarning, match="left out: cuda"):
        profiler.profile(use_cuda=True)
    with profiler.profile(enabled=False) as off:
        x.relu()
    assert off.function_events == [] and off.self_cpu_time_total == 0
