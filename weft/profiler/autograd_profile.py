"""PyTorch's older profiler, weft.autograd.profiler.profile: the same look, under the older names."""

from __future__ import annotations

from typing import Any

from weft.profiler.averages import EventList, FunctionEventAvg
from weft.profiler.profile import profile as newer_profile
from weft.support.warn import warn


class profile(newer_profile):
    """Look at what runs within a block, in all threads.

    enabled: False looks at nothing. use_device: None or "cpu"; others are not there, which is warned of, as is
    use_cuda. record_shapes, profile_memory, with_stack and with_flops: as in weft.profiler.profile; the others are
    accepted so that PyTorch's programs run. Raises StateError if it is begun while another profile looks.
    """

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None,
        record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False, with_stack: bool = False,
        with_modules: bool = False, use_kineto: bool = False, use_cpu: bool = True, experimental_config: Any = None,
        acc_events: bool = False,
    ) -> None:
        super().__init__(
            record_shapes=record_shapes, profile_memory=profile_memory, with_stack=with_stack, with_flops=with_flops
        )
        absent = "cuda" if use_cuda else use_device
        if absent not in (None, "cpu"):
            warn(f"profile: there is nothing but the CPU here; left out: {absent}", UserWarning)
        self.enabled = enabled

    def start(self) -> None:
        """Begin, if it is enabled."""
        if self.enabled:
            super().start()

    def events(self) -> EventList:
        """Everything that ran, by its begin: FunctionEvents; nothing of a profile that is not enabled. Raises
        StateError before the end."""
        return super().events() if self.enabled else EventList()

    @property
    def function_events(self) -> EventList:
        """Everything that ran."""
        return self.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all that ran."""
        return self.events().self_cpu_time_total

    def total_average(self) -> FunctionEventAvg:
        """All that ran as one."""
        return self.events().total_average()

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
        max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """What ran as a table: EventList.table of the events."""
        return self.events().table(
            sort_by, row_limit, max_src_column_width, max_name_column_width, max_shapes_column_width, header,
            top_level_events_only,
        )

    def __str__(self) -> str:
        return self.table()
