"""Scanner: the tokens of weft's text forms (types, graphs), with line and column for errors."""

from __future__ import annotations

import json
import re
from typing import NamedTuple, NoReturn

from weft.support.errors import ParseError

MOST_DIGITS = 4000  # Python itself stops at 4300
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    | (?P<comment>\#[^\n]*)
    | (?P<value>%[A-Za-z0-9_.]+)
    | (?P<graph>@(?:[A-Za-z_]\w*|"(?:[^"\\\n]|\\.)*"))
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<operator>[A-Za-z_]\w*::\w+(?:\.\w+)?)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<float>\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+)
    | (?P<int>\d+)
    | (?P<mark>\.\.\.|->|//|==|!=|>=|[<>()\[\]{}:,=+\-*%?@.])
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """A piece of text: its kind (value, word, int, mark, ...; "end" after the last), and where it starts."""

    kind: str
    text: str
    start: int


class Scanner:
    """Reads tokens one by one. Comments are kept aside by line: `comments[12]` is the comment on line 12,
    without its mark."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.comments: dict[int, str] = {}
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self._tokens: list[Token] = []
        self._lines: list[int] = []
        self._at = 0
        self._split()

    def _split(self) -> None:
        text, at, line = self.text, 0, 1
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                self._fail_at(at, f"{text[at]!r} starts nothing that is known here")
            kind = match.lastgroup
            assert kind is not None
            if kind == "space":
                line += match[0].count("\n")
            elif kind == "comment":
                self.comments[line] = match[0][1:].strip()
            else:
                self._tokens.append(Token(kind, match[0], at))
                self._lines.append(line)
            at = match.end()
        self._tokens.append(Token("end", "", len(text)))
        self._lines.append(line)

    # ---- looking
    @property
    def next(self) -> Token:
        """The token to be read next."""
        return self._tokens[self._at]

    def after_next(self) -> Token:
        """The token behind the next one."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    @property
    def last_line(self) -> int:
        """The line of the token that was read last, counted from 1."""
        return self._lines[max(self._at - 1, 0)]

    def sees(self, text: str) -> bool:
        """Whether the next token is this mark or word."""
        token = self._tokens[self._at]
        return token.text == text and token.kind != "string"

    # ---- reading
    def read(self) -> Token:
        """The next token; it counts as read. The end is never read."""
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def take(self, text: str) -> bool:
        """Read this mark or word if it comes next."""
        if not self.sees(text):
            return False
        self._at += 1
        return True

    def expect(self, text: str) -> Token:
        """Read this mark or word. Raises ParseError if something else comes."""
        if not self.sees(text):
            self.fail(f"expected {text!r}, found {self._found()}")
        return self.read()

    def expect_kind(self, kind: str, what: str) -> Token:
        """Read a token of this kind. Raises ParseError that says what was expected."""
        if self.next.kind != kind:
            self.fail(f"expected {what}, found {self._found()}")
        return self.read()

    def read_int(self) -> int:
        """Read an integer. Raises ParseError for anything else, and for more digits than any number here has."""
        token = self.expect_kind("int", "an integer")
        if len(token.text) > MOST_DIGITS:
            self.fail(f"an integer of {len(token.text)} digits", token)
        return int(token.text)

    def read_string(self) -> str:
        """Read text in double quotes, with JSON's escapes."""
        return self.unquoted(self.expect_kind("string", "text in double quotes"), 0)

    def unquoted(self, token: Token, start: int) -> str:
        """The text that a token quotes from its character `start` on."""
        try:
            return str(json.loads(token.text[start:]))
        except ValueError as problem:
            self.fail(f"not a text that JSON knows: {problem}", token)

    def expect_end(self) -> None:
        """Nothing may follow. Raises ParseError."""
        if self.next.kind != "end":
            self.fail(f"expected the end, found {self._found()}")

    def _found(self) -> str:
        return "the end of the text" if self.next.kind == "end" else repr(self.next.text)

    # ---- failing
    def fail(self, problem: str, token: Token | None = None) -> NoReturn:
        """Raise ParseError at a token (default: the next), showing its line."""
        self._fail_at((token or self.next).start, problem)

    def _fail_at(self, at: int, problem: str) -> NoReturn:
        line = max(i for i, start in enumerate(self._starts) if start <= at)
        column = at - self._starts[line]
        shown = self.text[self._starts[line] :].split("\n", 1)[0]
        raise ParseError(f"line {line + 1}, column {column + 1}: {problem}\n    {shown}\n    {' ' * column}^")
