"""The writer of read-only images: what is written is what was asked for, in one spelling."""

import io
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.images import read
from threegate.base.erofs import (
    BLOCK_BYTES,
    MAX_DEPTH,
    Directory,
    ErofsFile,
    ErofsLink,
    Node,
    lay_out,
    write,
)


def content(path: str, size: int) -> bytes:
    return (sha256(path.encode("utf-8", "surrogateescape")).digest() * (size // 32 + 1))[:size]


def image(nodes: dict[str, Node]) -> bytes:
    def opened(path: str) -> io.BytesIO:
        node = nodes[path]
        assert isinstance(node, ErofsFile)
        return io.BytesIO(content(path, node.size))

    out = io.BytesIO()
    layout = lay_out(nodes)
    write(layout, out, opened)
    assert len(out.getvalue()) == layout.size
    return out.getvalue()


SAMPLE: dict[str, Node] = {
    "table.csv": ErofsFile(5000),
    "empty": ErofsFile(0),
    "block": ErofsFile(BLOCK_BYTES),
    "bin/run": ErofsFile(7, executable=True),
    "bin/link": ErofsLink("../table.csv"),
    "tmp": Directory(0o1777),
    "a/b/c/deep": ErofsFile(1),
    "!before the dots": ErofsFile(2),
    "ümläut": ErofsFile(3),
}


def test_what_is_written_is_what_was_asked_for() -> None:
    found = read(image(SAMPLE))
    assert found["table.csv"] == ("file", 0o644, content("table.csv", 5000))
    assert found["bin/run"] == ("file", 0o755, content("bin/run", 7))
    assert found["bin/link"] == ("link", 0o777, b"../table.csv")
    assert found["tmp"] == ("directory", 0o1777, [b".", b".."])
    assert found["empty"] == ("file", 0o644, b"")
    assert found["a/b/c/deep"][2] == content("a/b/c/deep", 1)
    assert found[""][2][0] == b"!before the dots"
    assert len(found) == 1 + len(SAMPLE) + len(["bin", "a", "a/b", "a/b/c"])


def test_the_metadata_is_known_before_a_byte_is_read() -> None:
    layout = lay_out(SAMPLE)
    whole = image(SAMPLE)
    assert whole.startswith(layout.metadata)
    for path, (start, size) in layout.places.items():
        assert start % BLOCK_BYTES == 0
        assert whole[start : start + size] == content(path, size)


def test_the_bytes_of_a_known_tree_never_change() -> None:
    """A vector: the digest of an image is part of the name of a guest."""
    assert sha256(image(SAMPLE)).hexdigest() == VECTOR
    assert image(dict(reversed(SAMPLE.items()))) == image(SAMPLE)


def test_a_directory_of_thousands_has_all_its_names() -> None:
    many: dict[str, Node] = {f"d/{n:05}-{'n' * (n % 200)}": ErofsFile(n % 3) for n in range(3000)}
    found = read(image(many))
    assert sorted(path for path in found if path.startswith("d/")) == sorted(many)


NAMES = st.text(
    st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=20
).filter(lambda name: name not in {".", ".."})
NODES = st.one_of(
    st.builds(ErofsFile, st.integers(0, 9000), st.booleans()),
    st.builds(ErofsLink, st.text(st.characters(codec="utf-8"), min_size=1, max_size=300)),
)


@given(st.dictionaries(st.tuples(NAMES, NAMES, NAMES).map("/".join) | NAMES, NODES, max_size=40))
def test_any_tree_comes_back_as_it_was(nodes: dict[str, Node]) -> None:
    if any(f"{path}/" in other for path in nodes for other in nodes if path != other):
        return  # one lies below a file; the test below
    found = read(image(nodes))
    for path, node in nodes.items():
        kind, _, held = found[path]
        if isinstance(node, ErofsFile):
            assert (kind, held) == ("file", content(path, node.size))
        elif isinstance(node, ErofsLink):
            assert (kind, held) == ("link", node.target.encode())


REFUSED: dict[str, dict[str, Node]] = {
    "no name": {"": ErofsFile(1)},
    "absolute": {"/a": ErofsFile(1)},
    "dots": {"../a": ErofsFile(1)},
    "one dot": {"a/./b": ErofsFile(1)},
    "no end": {"a/": ErofsFile(1)},
    "zero": {"a\0b": ErofsFile(1)},
    "long": {"n" * 256: ErofsFile(1)},
    "deep": {"/".join("d" * (MAX_DEPTH + 1)): ErofsFile(1)},
    "below a file": {"a": ErofsFile(1), "a/b": ErofsFile(1)},
    "below a link": {"a": ErofsLink("b"), "a/b/c": ErofsFile(1)},
    "negative": {"a": ErofsFile(-1)},
    "huge": {"a": ErofsFile(2**60)},
    "no target": {"a": ErofsLink("")},
    "long target": {"a": ErofsLink("t" * 1025)},
    "too much": {f"f{n}": ErofsFile(2**40) for n in range(17)},
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_is_no_tree_is_refused(how: str) -> None:
    lay_out(SAMPLE)  # control
    with pytest.raises(ValueError, match=r"name|deep|directory|size|target|large"):
        lay_out(REFUSED[how])


@pytest.mark.parametrize("held", [b"", b"four", b"six by"])
def test_a_file_of_another_size_than_promised_is_refused(held: bytes) -> None:
    layout = lay_out({"a": ErofsFile(5)})
    write(layout, io.BytesIO(), lambda _: io.BytesIO(b"five!"))  # control
    with pytest.raises(ValueError, match="the size of a is not 5"):
        write(layout, io.BytesIO(), lambda _: io.BytesIO(held))


VECTOR = "daeecc114440edeade52aaff2417fef153dffea2dce5c28f03f0561ae921787c"
