"""An explanation in a notebook: the same facts as a table."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from weft.explanations.facts import Explanation
from weft.explanations.text import KERNELS, PARAMS, after_kernels, before_kernels, duration, short_operators


def html_of(explanation: Explanation) -> str:
    """Lines, and the kernels as rows."""
    kernels = [kernel for kernel, _ in explanation.slowest_kernels()]
    total = sum(k.seconds for k in kernels) or 1.0
    rows = [
        f"<tr><td>{100 * k.seconds / total:.0f} %</td><td>{duration(k.seconds)}</td><td>{escape(k.lines)}</td>"
        f"<td>{escape(k.name)}</td><td>{escape(', '.join(short_operators(k.operators)))}</td>"
        f"<td>{escape(', '.join(k.params[:PARAMS]))}</td></tr>"
        for k in kernels[:KERNELS]
    ]
    head = "".join(f"<th>{name}</th>" for name in ("share", "time", "lines", "kernel", "operators", "reads, writes"))
    table = f"<table><tr>{head}</tr>{''.join(rows)}</table>" if rows else ""
    return f"<div>{_paragraph(before_kernels(explanation))}{table}{_paragraph(after_kernels(explanation))}</div>"


def _paragraph(lines: Iterator[str]) -> str:
    return f"<p>{'<br>'.join(escape(line.strip()) for line in lines)}</p>"
