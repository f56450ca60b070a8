"""The list of packages that `./dev reach` tries (reach.ini), read."""

from __future__ import annotations

import configparser
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).resolve().parent / "reach.ini"


@dataclass(frozen=True)
class Model:
    """name; made: the expression that makes a Module or function; inputs: the arguments it is called with, as text;
    dtype: of its numbers."""

    name: str
    made: str
    inputs: str
    dtype: str


@dataclass(frozen=True)
class Package:
    """name; requires: what pip installs without what these depend on; needs: what it installs with that; setup: code
    before any model is made; suites: tests that the package installs, for `pytest --pyargs`, with options."""

    name: str
    requires: tuple[str, ...]
    needs: tuple[str, ...]
    setup: str
    models: tuple[Model, ...]
    suites: tuple[str, ...]


def packages() -> list[Package]:
    """All packages of the list, in its order. Raises ValueError for a line that is none of a model."""
    parser = configparser.ConfigParser(delimiters=("=",), comment_prefixes=("#",), interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read_string(LIST.read_text(encoding="utf-8"))
    return [_package(parser[name]) for name in parser.sections()]


def package_of(name: str) -> Package:
    """The package of a name. Raises KeyError."""
    return {package.name: package for package in packages()}[name]


def _package(section: configparser.SectionProxy) -> Package:
    models = tuple(_model(section.name, line) for line in _lines(section.get("models", "")))
    return Package(
        section.name, tuple(section.get("requires", "").split()), tuple(section.get("needs", "").split()),
        "\n".join(_lines(section.get("setup", ""))), models, tuple(_lines(section.get("suites", ""))),
    )


def _lines(text: str) -> list[str]:
    """Its lines; `|` at the front of one keeps the spaces behind it."""
    return [line.removeprefix("|") for line in text.splitlines() if line.strip()]


def _model(package: str, line: str) -> Model:
    name, colon, rest = line.partition(": ")
    made, arrow, inputs = rest.partition(" <-")
    if not colon or not arrow:
        raise ValueError(f"reach.ini: [{package}] {line!r} is not NAME: MODEL <- INPUTS")
    name, _, dtype = name.strip().partition(" ")
    return Model(name, made.strip(), inputs.strip(), dtype.strip("()") or "float64")
