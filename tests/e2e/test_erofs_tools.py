"""Our writer of images against the programs of the file system's own authors."""

import io
import os
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from threegate.base.erofs import Directory, ErofsFile, ErofsLink, Node, lay_out, write


def content(path: str, size: int) -> bytes:
    return (sha256(os.fsencode(path)).digest() * (size // 32 + 1))[:size]


def trees() -> dict[str, dict[str, Node]]:
    return {
        "nothing": {},
        "one": {"table.csv": ErofsFile(12_345)},
        "edges": {f"f{n}": ErofsFile(n) for n in (0, 1, 4095, 4096, 4097, 1_000_000)},
        "kinds": {
            "a/b/c": ErofsFile(5, executable=True),
            "a/l": ErofsLink("b/c"),
            "t": Directory(0o1777),
        },
        "thousands": {
            f"in/{n % 7}/{n:05}-{'n' * (n % 90)}": ErofsFile(n % 5000) for n in range(4000)
        },
        "links": {f"l{n}": ErofsLink("t" * (n + 1)) for n in range(1000)},
        "names": {
            name: ErofsFile(3) for name in ("!", "-", "...", ".x", "ümläut", "n" * 255, "\x01")
        },
    }


@pytest.mark.parametrize("name", trees())
def test_the_authors_programs_read_what_was_written(name: str, tmp_path: Path) -> None:
    nodes, image, out = trees()[name], tmp_path / "image", tmp_path / "out"
    with image.open("wb") as file:
        sizes = {path: node.size for path, node in nodes.items() if isinstance(node, ErofsFile)}
        write(lay_out(nodes), file, lambda path: io.BytesIO(content(path, sizes[path])))
    shown = subprocess.run(["dump.erofs", "-s", image], capture_output=True, text=True, check=True)
    assert f"Filesystem blocks:                            {len(image.read_bytes()) // 4096}\n" in (
        shown.stdout
    )
    subprocess.run(["fsck.erofs", f"--extract={out}", image], capture_output=True, check=True)
    for path, node in nodes.items():
        if isinstance(node, ErofsFile):
            assert (out / path).read_bytes() == content(path, node.size)
            assert bool((out / path).stat().st_mode & 0o100) == node.executable
        elif isinstance(node, ErofsLink):
            assert os.readlink(out / path) == node.target
        else:
            assert (out / path).is_dir()
    found = sum(len(names) + len(files) for _, names, files in os.walk(out))
    above = {part for path in nodes for part in map(str, Path(path).parents) if part != "."}
    assert found == len({*nodes, *above})


def test_the_authors_program_finds_a_damaged_one(tmp_path: Path) -> None:
    """The control: it does read, and says no where there is something to say."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        write(lay_out({"d/a": ErofsFile(5)}), file, lambda _: io.BytesIO(b"hello"))
    check = ["fsck.erofs", str(image)]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0
    data = bytearray(image.read_bytes())
    data[4096 + 8] ^= 0xF0  # where the names of the root begin
    image.write_bytes(data)
    assert subprocess.run(check, capture_output=True, check=False).returncode != 0
