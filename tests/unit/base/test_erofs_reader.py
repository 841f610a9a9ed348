"""Reading back what our own writer wrote, and nothing else."""

import io
import os
import random
import re
from pathlib import Path

import pytest

from threegate.base.erofs import Directory, ErofsFile, ErofsLink, Node, lay_out, write
from threegate.base.erofs_reader import read_nodes

NODES: dict[str, Node] = {
    "bin": ErofsLink("usr/bin"),
    "empty": ErofsFile(0),
    "tmp": Directory(0o1777),
    "usr": Directory(),
    "usr/bin": Directory(),
    "usr/bin/run": ErofsFile(5, executable=True),
    **{f"usr/bin/{'n' * 200}{number}": ErofsFile(1) for number in range(100)},
    "usr/\udcff": ErofsFile(4097),
}

REASONS = "ours|early|erofs|laid out|kind|deep|name|directory|large|target|size"


def image(place: Path) -> bytes:
    layout = lay_out(NODES)
    sizes = {name: node.size for name, node in NODES.items() if isinstance(node, ErofsFile)}
    with place.open("xb") as out:
        write(layout, out, lambda name: io.BytesIO(b"x" * sizes[name]))
    return place.read_bytes()


def read(data: bytes, place: Path) -> dict[str, Node]:
    place.write_bytes(data)
    fd = os.open(place, os.O_RDONLY)
    try:
        return read_nodes(fd)[0]
    finally:
        os.close(fd)


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    assert read(image(tmp_path / "a"), tmp_path / "b") == NODES


def test_an_image_our_writer_would_not_have_written_is_refused(tmp_path: Path) -> None:
    data = image(tmp_path / "a")
    metadata = len(lay_out(NODES).metadata)
    assert read(data, tmp_path / "b") == NODES, "control: unchanged it is read"
    chosen = random.Random(7).sample(range(metadata), 300)
    refused = 0
    for at in chosen:
        changed = bytearray(data)
        changed[at] ^= 0x41
        try:
            found = read(bytes(changed), tmp_path / "b")
        except ValueError as exc:
            refused += 1
            assert re.search(REASONS, str(exc)), exc
        else:  # a letter of a name, say: then it is another image of ours, to the byte
            assert lay_out(found).metadata == changed[:metadata]
    assert refused > len(chosen) // 2
    for size in (0, 1024, 4096, metadata - 1):
        with pytest.raises(ValueError, match=REASONS):
            read(data[:size], tmp_path / "b")
