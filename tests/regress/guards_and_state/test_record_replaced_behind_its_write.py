"""A step of an object that is an argument writes into a record that the object holds, and puts another record in its
place: the write landed in the new one, where the program made it second."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import weft


@dataclass
class Record:
    value: Any
    parts: list[Any]


class Model:
    def __init__(self) -> None:
        self.items, self.record = [weft.ones(3)], Record(weft.zeros(3), [weft.ones(3)])
        self.cur, self.layer = weft.ones(3), weft.nn.Linear(3, 3)
        self.layer.register_forward_hook(self.hook)

    def hook(self, module: Any, args: Any, out: Any) -> None:
        self.cur = out

    def step(self, x: Any, flag: bool) -> Any:
        v = (x * 2).mean(0)
        if flag:
            self.record.parts = self.items = [v * 3]
            self.record = Record(self.layer(v), [])
        return v + self.cur

    def another(self) -> Model:
        other: Model = object.__new__(Model)
        vars(other).update(vars(self))
        other.record, other.items = copy.copy(self.record), list(self.items)
        return other


def test_the_write_is_made_in_the_record_of_before() -> None:
    compiled = weft.compile(Model.step)
    for flags in ((False, False, True), (True, True), (False, True, True, False)):
        seen = []
        for run in (Model.step, compiled):
            weft.manual_seed(0)
            model, log = Model(), []
            for flag in flags:
                model = model.another()
                record = model.record
                run(model, weft.ones(2, 3), flag)
                log.append((record.parts is model.items, model.record.parts is model.items, len(model.record.parts)))
            seen.append(log)
        assert seen[0] == seen[1]
