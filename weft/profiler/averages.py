"""Averages of events by name, and the table that is printed of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.profiler.events import KERNEL, PART_OF_KERNEL, FunctionEvent
from weft.support.errors import ValueProblem
from weft.support.knobs import nearest
from weft.support.locations import Location, lines_text

_SORTED_BY = (
    "self_cpu_time_total", "cpu_time_total", "cpu_time", "count", "cpu_memory_usage", "self_cpu_memory_usage", "bytes",
    "operations", "flops",
)


class FunctionEventAvg:
    """All events of one name. Times in microseconds, memory in bytes: totals, but for cpu_time, which is of one call.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = self.bytes = self.operations = 0
        self.input_shapes: list[Any] = []
        self.lines: tuple[Location, ...] = ()
        self.kind = ""

    def add(self, event: FunctionEvent) -> None:
        """One more event. Where one lies within another of the same name, its time is in that one's total already."""
        self.count += 1
        if not _is_within_its_like(event):
            self.cpu_time_total += event.cpu_time_total
            self.cpu_memory_usage += event.cpu_memory_usage
        self.self_cpu_time_total += event.self_cpu_time_total
        self.self_cpu_memory_usage += event.self_cpu_memory_usage
        self.bytes += event.bytes
        self.operations += event.operations
        self.lines = tuple(dict.fromkeys((*self.lines, *event.lines)))
        self.input_shapes, self.kind = event.input_shapes, event.kind

    @property
    def cpu_time(self) -> float:
        """Microseconds of one call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def flops(self) -> int:
        """The operations, under PyTorch's name."""
        return self.operations

    def __repr__(self) -> str:
        return f"<FunctionEventAvg {self.key}: {self.count} calls, {self.self_cpu_time_total:.3f} us by itself>"


def _is_within_its_like(event: FunctionEvent) -> bool:
    parent = event.cpu_parent
    while parent is not None:
        if parent.name == event.name:
            return True
        parent = parent.cpu_parent
    return False


class EventList(list[Any]):
    """Events, or averages of them; prints as a table."""

    def __init__(self, events: Iterable[Any] = (), profile_memory: bool = False, with_flops: bool = False) -> None:
        super().__init__(events)
        self.profile_memory, self.with_flops = profile_memory, with_flops

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Averages by name; by the shapes of what operators were given too; and by so many of the user's lines."""
        groups: dict[Any, FunctionEventAvg] = {}
        for event in self:
            if event.kind == PART_OF_KERNEL:  # their kernel has the time
                continue
            key: Any = (
                event.name, str(event.input_shapes) if group_by_input_shape else "", event.lines[:group_by_stack_n]
            )
            groups.setdefault(key, FunctionEventAvg(event.name)).add(event)
        return EventList(groups.values(), self.profile_memory, self.with_flops)

    def total_average(self) -> FunctionEventAvg:
        """All of them as one."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.count += event.count
            for name in ("self_cpu_time_total", "self_cpu_memory_usage", "bytes", "operations"):
                setattr(total, name, getattr(total, name) + getattr(event, name))
        total.cpu_time_total = total.self_cpu_time_total
        return total

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all of them."""
        return float(sum([e.self_cpu_time_total for e in self if e.kind != PART_OF_KERNEL]))

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
        max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """The table as text.

        sort_by: a column, the largest first: "self_cpu_time_total", "cpu_time_total", "cpu_time", "count",
        "cpu_memory_usage", "self_cpu_memory_usage", "bytes" or "operations"; None: in the order of the events.
        row_limit: rows at most; -1 for all. header: a line above. Columns that nothing has a value for are left out.
        Raises ValueProblem for another column.
        """
        rows = [e for e in self if e.kind != PART_OF_KERNEL]
        if top_level_events_only:
            rows = [e for e in rows if getattr(e, "cpu_parent", None) is None]
        total = sum([e.self_cpu_time_total for e in rows])
        if sort_by is not None:
            rows.sort(key=_sorting(sort_by), reverse=True)
        rows = rows if row_limit < 0 else rows[:row_limit]
        columns = _columns(rows, total, self, max_name_column_width, max_shapes_column_width, max_src_column_width)
        return _text(rows, columns, total, header)

    def __str__(self) -> str:
        return self.table()


def _sorting(name: str) -> Callable[[Any], float]:
    name = name.replace("device", "cpu").replace("cuda", "cpu")
    if name not in _SORTED_BY:
        raise ValueProblem(f"table: sort_by={name!r} is no column; there are {', '.join(_SORTED_BY)}"
                           f"{nearest(name, _SORTED_BY)}")
    return lambda event: float(getattr(event, name))


Column = tuple[str, Callable[[Any], str]]


def _columns(
    rows: Sequence[Any], total: float, events: EventList, name_width: int, shapes_width: int, source_width: int
) -> list[Column]:
    def share(value: float) -> str:
        return f"{100 * value / total:.2f}%" if total else "NaN"

    columns: list[Column] = [
        ("Name", lambda e: _cut(e.key, name_width)),
        ("Self CPU %", lambda e: share(e.self_cpu_time_total)),
        ("Self CPU", lambda e: time_text(e.self_cpu_time_total)),
        ("CPU total %", lambda e: share(e.cpu_time_total)),
        ("CPU total", lambda e: time_text(e.cpu_time_total)),
        ("CPU time avg", lambda e: time_text(e.cpu_time)),
    ]
    if events.profile_memory:
        columns += [
            ("CPU Mem", lambda e: bytes_text(e.cpu_memory_usage)),
            ("Self CPU Mem", lambda e: bytes_text(e.self_cpu_memory_usage)),
        ]
    columns.append(("# of Calls", lambda e: str(e.count)))
    if any(e.input_shapes for e in rows):
        columns.append(("Input Shapes", lambda e: _cut(str(e.input_shapes or "[]"), shapes_width)))
    if any(e.kind == KERNEL for e in rows):
        columns += [("Bytes", lambda e: bytes_text(e.bytes) if e.bytes else "--"), ("Bandwidth", _bandwidth)]
    if events.with_flops:
        columns.append(("Total MFLOPs", lambda e: f"{e.operations / 1e6:.3f}" if e.operations else "--"))
    if any(e.lines for e in rows):
        columns.append(("Source Location", lambda e: _cut(lines_text(e.lines), source_width)))
    return columns


def _bandwidth(event: Any) -> str:
    return f"{event.bytes / event.cpu_time_total / 1e3:.1f} GB/s" if event.bytes and event.cpu_time_total else "--"


def _text(rows: Sequence[Any], columns: Sequence[Column], total: float, header: str | None) -> str:
    table = [[title for title, _ in columns], *[[of(e) for _, of in columns] for e in rows]]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    left = {i for i, (title, _) in enumerate(columns) if title in ("Name", "Source Location")}
    lines = ["  ".join([
        cell.ljust(width) if i in left else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]).rstrip() for row in table]
    rule = "  ".join("-" * width for width in widths)
    head = [] if header is None else [header]
    return "\n".join([*head, rule, lines[0], rule, *lines[1:], rule, f"Self CPU time total: {time_text(total)}", ""])


def time_text(microseconds: float) -> str:
    """`12.345us`, `1.234ms` or `1.234s`."""
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    return f"{microseconds / 1e3:.3f}ms" if microseconds >= 1e3 else f"{microseconds:.3f}us"


def bytes_text(count: float) -> str:
    """`512 B`, `1.50 KB`, ..."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:.0f} B"


def _cut(text: str, width: int) -> str:
    return text if width < 0 or len(text) <= width else text[: max(0, width - 3)] + "..."
