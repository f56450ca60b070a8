"""Text to train on, and every file that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.cli.failure import CommandError
from weft.cli.text import check_length, load_text


def test_files_are_joined_in_order(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("één\n".encode())
    (tmp_path / "b").write_bytes(b"two")
    text = load_text([tmp_path / "b", tmp_path / "a"])
    assert text.content == "two\néén\n".encode()
    assert text.name == f"{tmp_path / 'b'}, {tmp_path / 'a'}"
    assert load_text([tmp_path / "a"]).sha256 != text.sha256


def test_python_carries_enough_english_by_default() -> None:
    text = load_text([])
    assert len(text.content) > 400_000 and b"The " in text.content
    assert load_text([]).sha256 == text.sha256
    check_length(text, 128)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        (b"", "the file is empty"),
        (b" \n\n", "the file is empty"),
        (b"PK\x03\x04\x00data", "not a text file (it has a zero byte at offset 4)"),
        (b"caf\xe9 au lait", "not UTF-8 text (byte 0xe9 at offset 3)"),
    ],
)
def test_what_is_not_text_is_refused_by_name(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "data.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CommandError) as caught:
        load_text([path])
    assert str(caught.value).startswith(f"{path}: ") and message in str(caught.value)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        load_text([tmp_path])


@pytest.mark.parametrize("context", [1, 7, 128])
def test_the_length_that_the_message_asks_for_is_enough_and_no_less(tmp_path: Path, context: int) -> None:
    path = tmp_path / "short.txt"
    path.write_bytes(b"x" * 5)
    with pytest.raises(CommandError, match="too short") as caught:
        check_length(load_text([path]), context)
    needed = int(str(caught.value).split("at least ")[1].split(" bytes")[0].replace(",", ""))
    path.write_bytes(b"x" * needed)
    check_length(load_text([path]), context)
