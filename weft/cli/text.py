"""The text that training reads: from files, or from the topics that every Python install carries."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.cli import recipe
from weft.cli.failure import CommandError

DEFAULT_NAME = "pydoc_data.topics (Python's own reference topics)"


@dataclass(frozen=True)
class Text:
    """Bytes to train on, where they came from, and a digest that says whether another text is the same."""

    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def load_text(files: Sequence[str | Path]) -> Text:
    """The files' text, one after the other; Python's reference topics if there is no file. Raises CommandError."""
    if not files:
        return Text(DEFAULT_NAME, _reference_topics())
    return Text(", ".join(str(file) for file in files), b"\n".join(_read(Path(file)) for file in files))


def _reference_topics() -> bytes:
    from pydoc_data.topics import topics  # half a megabyte of source, read only where it is trained on

    return "\n\n".join(topics[name].strip() for name in sorted(topics)).encode() + b"\n"


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CommandError(f"{path}: cannot be read ({error.strerror})") from None
    if not content.strip():
        raise CommandError(f"{path}: the file is empty")
    if b"\0" in content:
        raise CommandError(f"{path}: not a text file (it has a zero byte at offset {content.index(0):,})")
    try:
        content.decode()
    except UnicodeDecodeError as error:
        byte = content[error.start]
        raise CommandError(f"{path}: not UTF-8 text (byte 0x{byte:02x} at offset {error.start:,})") from None
    return content


def check_prompt(prompt: str) -> None:
    """Raise CommandError unless the prompt has a character and can be written in UTF-8."""
    if not prompt:
        raise CommandError("--prompt: give at least one character to continue")
    try:
        prompt.encode()
    except UnicodeEncodeError as error:  # bytes of the command line that were no text
        raise CommandError(f"--prompt: not UTF-8 text (at character {error.start})") from None


def check_length(text: Text, context: int) -> None:
    """Raise CommandError unless both the training part and the held-out part hold a window of context + 1 bytes."""
    held_out = len(recipe.split(text.content)[1])
    if held_out > context:
        return
    needed = int((context + 1) / recipe.HELD_OUT) + 1
    raise CommandError(
        f"{text.name}: too short. Of its {len(text.content):,} bytes the last tenth is held out ({held_out:,}), "
        f"which is less than one window of {context} + 1; give at least {needed:,} bytes, or a smaller --context"
    )
