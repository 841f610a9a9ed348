"""Git repositories for tests: made by the real git, and by hand where git would refuse."""

import hashlib
import os
import shutil
import struct
import subprocess
import zlib
from collections.abc import Mapping
from pathlib import Path

PLAIN = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}


def git(place: Path, *argv: str, code: int | None = 0) -> str:
    """Run the real git and return what it prints."""
    found = shutil.which("git")
    assert found, "the tests need git"
    ran = subprocess.run(
        [found, "-C", str(place), *argv],
        env={**os.environ, **PLAIN},
        capture_output=True,
        check=False,
        umask=0o022,  # gates that root starts have uids of their own, and read the objects
    )
    assert code is None or ran.returncode == code, ran.stderr
    return ran.stdout.decode(errors="replace").strip()


def repository(place: Path, files: Mapping[str, str | bytes], *options: str) -> str:
    """Make a repository with one commit of some files, and return the id of the commit."""
    place.mkdir(parents=True, exist_ok=True)
    git(place, "init", "-q", "-b", "main", *options)
    return commit(place, files)


def commit(place: Path, files: Mapping[str, str | bytes]) -> str:
    """Write files, commit them, and return the id of the commit."""
    for name, text in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    git(place, "add", "-A", "-f")
    git(place, "commit", "-q", "-m", "a commit", "--allow-empty")
    return git(place, "rev-parse", "HEAD")


def loose(place: Path, kind: str, data: bytes, *, said: int | None = None) -> str:
    """Write a loose object into a git directory as it is, and return its id."""
    head = f"{kind} {len(data) if said is None else said}\0".encode()
    name = hashlib.sha1(head + data, usedforsecurity=False).hexdigest()
    path = place / "objects" / name[:2] / name[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_bytes(zlib.compress(head + data))
    return name


def tree(place: Path, *entries: tuple[str, bytes, str]) -> str:
    """Write a tree of (mode, name, id), in the order given."""
    rows = (
        b"%s %s\0"
        % (
            mode.encode(),
            name,
        )
        + bytes.fromhex(one)
        for mode, name, one in entries
    )
    return loose(place, "tree", b"".join(rows))


def commit_of(place: Path, tree_id: str) -> str:
    """Write a commit of a tree."""
    who = "A <a@example.org> 1700000000 +0000"
    return loose(place, "commit", f"tree {tree_id}\nauthor {who}\ncommitter {who}\n\nx\n".encode())


def pack(place: Path, entries: list[tuple[str, bytes]]) -> None:
    """Write a pack and its index: ids, and entries as they are in the pack."""
    body = bytearray(b"PACK" + struct.pack(">LL", 2, len(entries)))
    places = {}
    for name, entry in entries:
        places[name] = (len(body), zlib.crc32(entry))
        body += entry
    checksum = hashlib.sha1(body, usedforsecurity=False).digest()
    body += checksum
    names = sorted(places)
    fan = [sum(int(name[:2], 16) <= byte for name in names) for byte in range(256)]
    index = b"\xfftOc" + struct.pack(">L", 2) + struct.pack(">256L", *fan)
    index += b"".join(map(bytes.fromhex, names))
    index += b"".join(struct.pack(">L", places[name][1]) for name in names)
    index += b"".join(struct.pack(">L", places[name][0]) for name in names)
    index += checksum
    index += hashlib.sha1(index, usedforsecurity=False).digest()
    folder = place / "objects" / "pack"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"pack-{checksum.hex()}.pack").write_bytes(body)
    (folder / f"pack-{checksum.hex()}.idx").write_bytes(index)


def entry(kind: int, data: bytes, *, size: int | None = None, base: bytes = b"") -> bytes:
    """Return an entry of a pack; `size` is what it declares."""
    left = len(data) if size is None else size
    head = [(kind << 4) | (left & 0x0F)]
    left >>= 4
    while left:
        head[-1] |= 0x80
        head.append(left & 0x7F)
        left >>= 7
    return bytes(head) + base + zlib.compress(data)


def number(value: int) -> bytes:
    """Return a number as deltas spell it."""
    out = bytearray()
    while True:
        out.append((value & 0x7F) | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)
