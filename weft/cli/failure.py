"""What a command says when it cannot go on: one message that names the file, and an exit code."""

from __future__ import annotations


class CommandError(Exception):
    """A mistake that the user can mend. Printed on standard error without a traceback; the command exits with 2."""
