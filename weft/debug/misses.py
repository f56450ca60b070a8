"""weft.debug.misses: why a function was compiled again, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from weft.explanations.explain import explain

_SHOWN = 10


@dataclass(frozen=True)
class MissNote:
    """One reason why calls had no program. text: the line that reads the value, what it was and is; remedy: what to do
    about it, "" where the text says that itself; times: how often."""

    text: str
    remedy: str
    times: int

    def __str__(self) -> str:
        times = f" ({self.times} times)" if self.times > 1 else ""
        return f"{self.text}{times}" + (f"\n    what to do: {self.remedy}" if self.remedy else "")


@dataclass
class Misses:
    """What `weft.debug.misses` tells: the reasons, the latest last. Print it, or go through it."""

    name: str
    notes: list[MissNote] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[MissNote]:
        return iter(self.notes)

    def __len__(self) -> int:
        return len(self.notes)

    def __str__(self) -> str:
        if not self.notes and not self.breaks:
            return f"{self.name}: every call but the first had a program"
        count = sum(note.times for note in self.notes)
        lines = [f"{self.name}: {count} call{'s' * (count != 1)} had no program that fits"] if self.notes else []
        if len(self.notes) > _SHOWN:
            lines.append(f"  ({len(self.notes) - _SHOWN} earlier reasons are left out)")
        lines += [f"  {note}" for note in self.notes[-_SHOWN:]]
        if self.breaks:
            lines.append(f"{self.name}: a program ends, and Python reads a value, at")
            lines += [f"  {one}" for one in self.breaks[:_SHOWN]]
        return "\n".join(lines)


def misses(function: Any) -> Misses:
    """Why calls of a function had no program: which value of Python or argument differed, from what to what, on which
    line it is read, and what to do about it. Reasons that differ in the values alone are one.

    function: what `weft.explain` takes, called before: a compiled or split function, a script, `weft.lazy`,
    `weft.compiled_autograd`. Raises ArgumentError for what has not run yet.
    """
    explanation = explain(function)
    return Misses(explanation.name, noted(explanation.misses), explanation.breaks)


def noted(texts: list[str]) -> list[MissNote]:
    """Reasons with how often there was one, in the order in which each came last."""
    times = Counter(map(_place, texts))
    latest: dict[str, str] = {}
    for text in texts:
        latest.pop(_place(text), None)
        latest[_place(text)] = text
    return [MissNote(str(text), getattr(text, "remedy", ""), times[place]) for place, text in latest.items()]


def _place(text: str) -> str:
    """What a reason is about: line and path, without the values."""
    return text.split(" was ", 1)[0]
