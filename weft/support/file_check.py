"""A reader of texts for tests: `FileCheck().check("a").check_not("b").run(text)`, with PyTorch's rules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

from weft.support.errors import StateError, ValueProblem

_DIRECTIVE = re.compile(
    r"#\s*CHECK(?P<kind>-NOT|-SAME|-NEXT|-DAG|-REGEX|-SOURCE-HIGHLIGHTED|"
    r"-COUNT-(?P<count>\d+)(?P<exactly>-EXACTLY)?)?: ?(?P<text>.*)"
)
_KINDS = {None: "check", "-NOT": "not", "-SAME": "same", "-NEXT": "next", "-DAG": "dag", "-REGEX": "regex",
          "-SOURCE-HIGHLIGHTED": "highlighted"}


@dataclass(frozen=True)
class _Rule:
    kind: str
    text: str
    count: int = 1
    exactly: bool = False

    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.text if self.kind == "regex" else re.escape(self.text))

    def __str__(self) -> str:
        return f"CHECK{'' if self.kind == 'check' else '-' + self.kind.upper()}: {self.text}"


class FileCheck:
    """Asks a text for pieces in their order. Each method adds a rule and returns the object itself; `run` applies them.

    A rule is looked for behind what the rule before it found; `check_not` between its neighbours. `run` takes the
    text, or the rules as comments (`# CHECK: text`) and then the text, and raises StateError (a RuntimeError) that
    shows the rule and the text.
    """

    def __init__(self) -> None:
        self._rules: list[_Rule] = []

    def check(self, text: str) -> FileCheck:
        """`text` comes next, somewhere behind."""
        return self._add("check", text)

    def check_not(self, text: str) -> FileCheck:
        """`text` is not between the rule before and the rule after."""
        return self._add("not", text)

    def check_same(self, text: str) -> FileCheck:
        """`text` comes next, on the same line."""
        return self._add("same", text)

    def check_next(self, text: str) -> FileCheck:
        """`text` comes next, on the line after."""
        return self._add("next", text)

    def check_dag(self, text: str) -> FileCheck:
        """`text` is there, in any order among the neighbouring rules of this kind."""
        return self._add("dag", text)

    def check_regex(self, text: str) -> FileCheck:
        """Something that the regular expression matches comes next."""
        return self._add("regex", text)

    def check_count(self, str: str, count: int, exactly: bool = False) -> FileCheck:
        """The text `str` comes `count` times; `exactly` asks that it does not come once more before the next rule."""
        return self._add("count", str, count, exactly)

    def check_source_highlighted(self, text: str) -> FileCheck:
        """`text` comes, and the line below marks the whole of it by `~` (the first by `^`, in errors of scripts)."""
        return self._add("highlighted", text)

    def run(self, text: Any, checked: str | None = None) -> None:
        """Applies the rules to `str(text)`; with two arguments, those that the first one holds as comments.
        Raises StateError where a rule does not hold, ValueProblem where there is none."""
        if checked is None:
            _Reader(str(text)).apply(self._rules)
            return
        rules = [_parsed(match) for match in _DIRECTIVE.finditer(str(text))]
        if not rules:
            raise ValueProblem("FileCheck.run: the first text holds no rule such as '# CHECK: text'")
        _Reader(str(checked)).apply([*self._rules, *rules])

    def _add(self, kind: str, text: str, count: int = 1, exactly: bool = False) -> FileCheck:
        self._rules.append(_Rule(kind, text, count, exactly))
        return self


def _parsed(match: re.Match[str]) -> _Rule:
    text = match["text"].rstrip()
    if match["count"] is not None:
        return _Rule("count", text, int(match["count"]), match["exactly"] is not None)
    return _Rule(_KINDS[match["kind"]], text)


class _Reader:
    """A text, and how far the rules have read it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def apply(self, rules: list[_Rule]) -> None:
        """All rules in their order. Those that forbid something wait for where the next one is."""
        forbidden: list[_Rule] = []
        index = 0
        while index < len(rules):
            rule = rules[index]
            if rule.kind == "not":
                forbidden.append(rule)
                index += 1
                continue
            begin = self.at
            group = [rule]
            if rule.kind == "dag":
                while index + len(group) < len(rules) and rules[index + len(group)].kind == "dag":
                    group.append(rules[index + len(group)])
            first = self._group(group)
            self._refuse(forbidden, begin, first)
            forbidden = []
            index += len(group)
            if rule.exactly and rule.count:
                forbidden.append(_Rule("not", rule.text))
        self._refuse(forbidden, self.at, len(self.text))

    def _group(self, rules: list[_Rule]) -> int:
        """Where the rules begin to hold; the reader stands behind them afterwards."""
        rule = rules[0]
        if rule.kind == "dag":
            spans = [self._find(r, self.at).span() for r in rules]
            self.at = max(end for _, end in spans)
            return min(begin for begin, _ in spans)
        if rule.kind == "count":
            first = self.at
            for i in range(rule.count):
                match = self._find(rule, self.at)
                first = match.start() if i == 0 else first
                self.at = match.end()
            return first
        if rule.kind == "highlighted":
            return self._highlighted(rule)
        match = self._find(rule, self.at)
        lines = self.text.count("\n", self.at, match.start())
        if (rule.kind == "same" and lines) or (rule.kind == "next" and lines != 1):
            self._fail(rule, f"is {lines} lines below what was found before it")
        self.at = match.end()
        return match.start()

    def _highlighted(self, rule: _Rule) -> int:
        match: re.Match[str] | None = self._find(rule, self.at)
        while match is not None:
            column = match.start() - (self.text.rfind("\n", 0, match.start()) + 1)
            line_end = self.text.find("\n", match.start())
            below = self.text[line_end + 1 :].split("\n", 1)[0] if line_end >= 0 else ""
            marks = below[column : column + len(rule.text)]
            if marks and set(marks) <= {"^", "~"} and len(marks) == len(rule.text):
                self.at = line_end + 1 + len(below)
                return match.start()
            match = rule.pattern().search(self.text, match.end())
        self._fail(rule, "is nowhere marked by ~ on the line below")

    def _find(self, rule: _Rule, begin: int) -> re.Match[str]:
        match = rule.pattern().search(self.text, begin)
        if match is None:
            self._fail(rule, "is not there")
        return match

    def _refuse(self, rules: list[_Rule], begin: int, end: int) -> None:
        for rule in rules:
            if rule.pattern().search(self.text, begin, end) is not None:
                self._fail(rule, "is there")

    def _fail(self, rule: _Rule, what: str) -> NoReturn:
        raise StateError(f"Expected to find {rule.text!r} ({rule}): it {what}. Searched string:\n{self.text}")


__all__ = ["FileCheck"]
