"""Trees of layers, and packages unpacked into them: nothing gets out of the root."""

import io
import lzma
import os
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.images import ar, deb, member, read, tar
from threegate.base.errors import ArtifactRejected
from threegate.host.images import layer as module
from threegate.host.images.build import add_own
from threegate.host.images.layer import Tree, path_of, target_of, unpack_package
from threegate.host.images.recipe import leaves_out


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "scratch").mkdir()
    return Tree(tmp_path / "scratch")


def test_a_tree_is_the_same_on_disk_and_in_its_image(tree: Tree, tmp_path: Path) -> None:
    tree.add_bytes("usr/bin/run", b"#!", executable=True)
    tree.add_bytes("usr/share/text", b"text")
    tree.links["bin"] = "usr/bin"
    tree.links["out"] = "/etc/passwd"
    tree.directories["tmp"] = 0o1777
    root = tmp_path / "root"
    root.mkdir()
    tree.put_on_disk(root)
    assert os.access(root / "usr/bin/run", os.X_OK)
    assert (root / "usr/share/text").read_bytes() == b"text"
    assert os.readlink(root / "out") == "/etc/passwd"
    out = io.BytesIO()
    tree.write_image(out)
    found = read(out.getvalue())
    assert found["usr/bin/run"] == ("file", 0o755, b"#!")
    assert found["bin"][2] == b"usr/bin"
    assert found["tmp"][1] == 0o1777
    assert set(found) == {"", "usr", "usr/bin", "usr/share", *tree.paths()}


def test_what_scripts_would_have_done_is_done_by_rule(tree: Tree) -> None:
    tree.add_bytes("usr/bin/sh", b"of a package")
    add_own("base", tree)
    assert tree.links["usr/bin/sh"] == "dash"
    assert "usr/bin/sh" not in tree.files
    assert tree.links["lib64"] == "usr/lib64"
    assert tree.directories["tmp"] == 0o1777
    assert tree.read("etc/passwd").startswith(b"root:x:0:0:")
    assert "threegate/agent" in tree
    science = Tree(tree.scratch)
    add_own("science", science)
    assert science.links["usr/lib/x86_64-linux-gnu/libblas.so.3"].startswith("openblas")
    assert not science.files


@pytest.mark.parametrize(
    ("path", "out"),
    [
        ("usr/lib/python3.11/json/__init__.py", False),
        ("usr/lib/python3.11/ensurepip/__init__.py", True),
        ("usr/lib/python3.11/unittest/mock.py", False),
        ("usr/lib/python3/dist-packages/numpy/core/tests/test_x.py", True),
        ("usr/lib/python3/dist-packages/numpy/testing/__init__.py", False),
        ("usr/lib/python3/dist-packages/x.pyc", True),
        ("usr/lib/locale/C.utf8/LC_CTYPE", False),
        ("usr/share/doc/libc6/copyright", True),
        ("usr/share/zoneinfo/Europe/Berlin", False),
        ("usr/bin/sort", False),
        ("usr/bin/openssl", True),
        ("usr/sbin/ldconfig", True),
        ("etc/bash.bashrc", True),
        ("etc/matplotlibrc", False),
        ("var/lib/dpkg/status", True),
    ],
)
def test_what_stays_out(path: str, out: bool) -> None:
    assert leaves_out(path) is out


def unpacked(data: bytes, place: Path, *, into: Tree | None = None) -> Tree:
    package = place / "package.deb"
    package.write_bytes(data)
    scratch = place / "scratch"
    scratch.mkdir(exist_ok=True)
    tree = into or Tree(scratch)
    unpack_package(package, tree, lambda _: True)
    return tree


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.SYMTYPE, linkname=target)


def same(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.LNKTYPE, linkname=target)


def test_files_links_and_second_names_arrive_without_owners_and_special_modes(
    tmp_path: Path,
) -> None:
    tree = unpacked(
        deb(
            member("./", type=tarfile.DIRTYPE),
            member("./usr/bin/", type=tarfile.DIRTYPE),
            member("./usr/bin/su", b"#!", mode=0o4755, uid=7, gid=8, mtime=9),
            member("./usr/share/a", b"text"),
            same("./usr/share/b", "./usr/share/a"),
            link("./usr/share/c", "../bin/su"),
            link("./usr/share/d", "/etc/alternatives/d"),
            member("./bin/old", b"joined", mode=0o755),
        ),
        tmp_path,
    )
    assert sorted(tree.files) == ["usr/bin/old", "usr/bin/su", "usr/share/a", "usr/share/b"]
    assert tree.read("usr/share/b") == b"text"
    assert tree.files["usr/bin/su"].executable
    assert not tree.files["usr/share/a"].executable
    assert tree.links == {"usr/share/c": "../bin/su", "usr/share/d": "/etc/alternatives/d"}


ATTACKS = {
    "absolute": ([member("/etc/passwd", b"x")], "not a path below the root"),
    "dots": ([member("./../../etc/passwd", b"x")], "not a path below the root"),
    "dots inside": ([member("./usr/../../x", b"x")], "not a path below the root"),
    "two slashes": ([member("./usr//x", b"x")], "not a path below the root"),
    "control": ([member("./usr/\x1b[2J", b"x")], "not printable"),
    "long": ([member("./" + "/".join(["n" * 200] * 6), b"x")], "too long"),
    "link out": ([link("./usr/x", "../../etc")], "leads out of the root"),
    "link far out": ([link("./usr/x", "../" * 9 + "etc/passwd")], "leads out of the root"),
    "absolute link out": ([link("./usr/x", "/../etc")], "leads out of the root"),
    "below a link": (
        [link("./a", "tmp"), member("./a/b", b"x")],
        "below a path that is not a directory",
    ),
    "link over what is below": (
        [member("./a/b/c", b"x"), link("./a", "tmp")],
        "is a directory and something else",
    ),
    "file over what is below": (
        [member("./a/b", b"x"), member("./a", b"x")],
        "is a directory and something else",
    ),
    "below a file": (
        [member("./a", b""), member("./a/b", b"x")],
        "below a path that is not a directory",
    ),
    "over a link": ([link("./a", "tmp"), member("./a", b"x")], "there already"),
    "link over a file": ([member("./a", b"x"), link("./a", "tmp")], "there already"),
    "directory over a link": (
        [link("./a", "tmp"), member("./a", type=tarfile.DIRTYPE)],
        "a directory and something else",
    ),
    "second name of nothing": ([same("./a", "./b")], "neither file, directory nor link"),
    "second name outside": ([same("./a", "/etc/shadow")], "not a path below the root"),
    "device": ([member("./a", type=tarfile.BLKTYPE)], "neither file, directory nor link"),
    "fifo": ([member("./a", type=tarfile.FIFOTYPE)], "neither file, directory nor link"),
}


@pytest.mark.parametrize("attack", ATTACKS)
# claim TG-C-221
def test_a_member_that_leaves_the_tree_or_is_no_file_is_refused(
    attack: str, tmp_path: Path
) -> None:
    members, reason = ATTACKS[attack]
    outside = sorted(tmp_path.parent.iterdir())
    control = unpacked(deb(member("./usr/fine", b"x")), tmp_path)
    assert control.files, "control: a package without the attack is unpacked"
    with pytest.raises(ArtifactRejected, match=reason) as caught:
        unpacked(deb(*members), tmp_path, into=Tree(_empty(tmp_path / "again")))
    assert caught.value.code == "TG-IMG-002"
    assert sorted(tmp_path.parent.iterdir()) == outside
    # Only scratch files with names of ours were written, whatever the names in the package.
    written = [path.name for path in (tmp_path / "again").iterdir()]
    assert all(name.isdigit() for name in written)


# claim TG-C-221
def test_the_attacks_work_on_an_unpacker_that_believes_its_package(tmp_path: Path) -> None:
    """The control of the list above: a plain tar extraction does write outside."""
    inner, data = tmp_path / "inner", tar([member("../escaped", b"x")])
    inner.mkdir()
    (tmp_path / "evil.tar").write_bytes(data)
    with tarfile.open(tmp_path / "evil.tar") as archive:
        # Not by the argument `filter`: Debian's Python 3.11.2 has none, and then checks nothing.
        archive.extraction_filter = lambda found, _: found
        archive.extractall(inner)  # noqa: S202
    assert (tmp_path / "escaped").exists(), "control: the archive is as hostile as it claims"
    with pytest.raises(ArtifactRejected, match="not a path below the root"):
        unpacked(deb(member("../escaped", b"x")), tmp_path)


def _empty(path: Path) -> Path:
    path.mkdir()
    return path


def test_two_packages_cannot_have_one_file(tmp_path: Path) -> None:
    tree = unpacked(deb(member("./usr/a", b"1")), tmp_path)
    with pytest.raises(ArtifactRejected, match="there already"):
        unpacked(deb(member("./usr/a", b"2")), tmp_path, into=tree)
    assert tree.read("usr/a") == b"1"


def test_a_package_larger_than_one_may_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = deb(*(member(f"./{n}", bytes(1000)) for n in range(5)))
    assert len(unpacked(data, tmp_path).files) == 5, "control"
    for limit, value in (("MAX_UNPACKED_BYTES", 4999), ("MAX_MEMBERS", 4)):
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, value)
            with pytest.raises(ArtifactRejected, match="more than a package may have"):
                unpacked(data, tmp_path, into=Tree(_empty(tmp_path / limit)))


def bare(kind: bytes, size: int, data: bytes = b"") -> bytes:
    """Return the head of something that stands before a member, and its bytes."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)


def packed(data: bytes) -> bytes:
    return ar(
        ("debian-binary", b"2.0\n"), ("control.tar.xz", b"x"), ("data.tar.xz", lzma.compress(data))
    )


END = tar([member("./usr/a", b"1")])
LONG = b"./usr/" + b"n" * 200
NAMED = bare(tarfile.GNUTYPE_LONGNAME, len(LONG), LONG) + END
PAX = b"30 path=./usr/by-another-name\n"
# Each stands before a member, and is read whole before anybody sees it.
ENDLESS = {
    "long name": (bare(tarfile.GNUTYPE_LONGNAME, 3 * 2**30), "longer than any may be"),
    "long link": (bare(tarfile.GNUTYPE_LONGLINK, 3 * 2**30), "longer than any may be"),
    "pax": (bare(tarfile.XHDTYPE, 3 * 2**30), "longer than any may be"),
    "pax for all": (bare(tarfile.XGLTYPE, len(PAX), PAX) + END, "about all of its members"),
    "holes": (bare(tarfile.GNUTYPE_SPARSE, 0) + END, "with holes"),
    "heads before heads": (bare(tarfile.XHDTYPE, len(PAX), PAX) * 2000 + END, "RecursionError"),
}


@pytest.mark.parametrize("attack", ENDLESS)
# claim TG-C-221
def test_what_stands_before_a_member_is_bounded(attack: str, tmp_path: Path) -> None:
    (name,) = unpacked(packed(NAMED), tmp_path).files
    assert name.endswith("n" * 194), "control: a long name is taken"
    pax = packed(bare(tarfile.XHDTYPE, len(PAX), PAX) + END)
    second = Tree(_empty(tmp_path / "second"))
    assert list(unpacked(pax, tmp_path, into=second).files) == ["usr/by-another-name"], "control"
    data, reason = ENDLESS[attack]
    with pytest.raises(ArtifactRejected, match=reason):
        unpacked(packed(data), tmp_path, into=Tree(_empty(tmp_path / "again")))


# claim TG-C-221
def test_a_stream_is_bounded_in_length_and_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    padded = packed(bare(tarfile.XHDTYPE, len(PAX), PAX) * 20 + END + bytes(2**20))
    assert unpacked(packed(END), tmp_path).files, "control"
    with monkeypatch.context() as patch:
        patch.setattr(module, "MAX_STREAM_BYTES", 10_000)
        with pytest.raises(ArtifactRejected, match="more than a package may have"):
            unpacked(padded, tmp_path, into=Tree(_empty(tmp_path / "long")))
    monkeypatch.setattr(module, "MAX_XZ_MEMORY_BYTES", 2**20)
    with pytest.raises(ArtifactRejected, match="LZMAError"):
        unpacked(packed(END), tmp_path, into=Tree(_empty(tmp_path / "wide")))


BROKEN = {
    "no ar": (b"PK\x03\x04" + bytes(100), "not a Debian package"),
    "no head": (b"!<arch>\n" + bytes(60), "not a Debian package"),
    "no files": (ar(("debian-binary", b"2.0\n"), ("control.tar.xz", b"")), "holds no files"),
    "another kind": (ar(("debian-binary", b"3.0\n")), "another kind"),
    "zstd": (
        ar(("debian-binary", b"2.0\n"), ("control.tar.zst", b""), ("data.tar.zst", b"")),
        "data.tar.zst. is not known",
    ),
    "other order": (ar(("data.tar.xz", b""), ("debian-binary", b"2.0\n")), "is not known"),
    "no xz": (
        ar(("debian-binary", b"2.0\n"), ("control.tar.xz", b""), ("data.tar.xz", b"no")),
        "cannot be unpacked",
    ),
    "no tar": (
        ar(
            ("debian-binary", b"2.0\n"),
            ("control.tar.xz", b""),
            ("data.tar.xz", lzma.compress(b"x" * 5000)),
        ),
        "cannot be unpacked",
    ),
    "cut": (
        deb(member("./a", b"".join(sha256(b"%d" % n).digest() for n in range(99))))[:-200],
        "cannot be unpacked",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_no_whole_package_is_refused(how: str, tmp_path: Path) -> None:
    data, reason = BROKEN[how]
    with pytest.raises(ArtifactRejected, match=reason):
        unpacked(data, tmp_path)


@given(st.binary(max_size=400))
def test_any_bytes_are_a_package_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    place = tmp_path_factory.mktemp("any")
    for tried in (data, b"!<arch>\n" + data, deb(member("./a", b"x"))[:200] + data):
        with pytest.raises(ArtifactRejected):
            unpacked(tried, place)


@given(st.text(max_size=60))
def test_no_name_becomes_a_path_that_leaves_the_root(name: str) -> None:
    try:
        path = path_of(name)
    except ArtifactRejected:
        return
    assert not path.startswith("/")
    assert ".." not in path.split("/")


@given(st.lists(st.sampled_from(["..", ".", "a", ""]), min_size=1), st.integers(0, 3))
def test_no_link_leads_out_of_the_root(parts: list[str], depth: int) -> None:
    path, target = "/".join(["d"] * depth + ["l"]), "/".join(parts)
    try:
        target_of(path, target)
    except ArtifactRejected:
        return
    places = [] if target.startswith("/") else ["d"] * depth
    for part in parts:
        if part == "..":
            places.pop()  # raises IndexError where it would leave
        elif part not in {"", "."}:
            places.append(part)
