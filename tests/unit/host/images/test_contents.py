"""Files inside an image: programs by their bytes, and a tree of its layers and nothing else."""

import hashlib
import io
import os
import stat
from pathlib import Path

import pytest

from tests.support.images import kept
from threegate.base.erofs import Directory, ErofsFile, ErofsLink, Node, lay_out, write
from threegate.base.errors import GateUnavailable
from threegate.host.images.contents import digests_in, tree_of
from threegate.host.images.store import Image, Images

BASE: dict[str, bytes | str] = {"bin": "usr/bin", "usr/bin/run": b"#!run", "etc/one": b"1"}
AGENT: dict[str, bytes | str] = {"threegate/agent/main": b"agent"}
LAYERS = ("base", "agent")
RUN, ONE = "/usr/bin/run", "/etc/one"


def layer(files: dict[str, bytes | str]) -> bytes:
    """Return a layer: bytes are files, text is the target of a link."""
    nodes: dict[str, Node] = {"tmp": Directory(0o1777)}
    for name, what in files.items():
        executable = name.endswith("run")
        nodes[name] = ErofsLink(what) if isinstance(what, str) else ErofsFile(len(what), executable)
    out = io.BytesIO()
    data = {name: what for name, what in files.items() if isinstance(what, bytes)}
    write(lay_out(nodes), out, lambda name: io.BytesIO(data[name]))
    return out.getvalue()


def image(root: Path, base: dict[str, bytes | str], agent: dict[str, bytes | str]) -> Image:
    return kept(root, **{"base.erofs": layer(base), "agent.erofs": layer(agent)})


def test_layers_lie_one_over_the_other_and_cannot_be_written(tmp_path: Path) -> None:
    before = os.umask(0o077)  # as the command line runs
    try:
        root, digest = tree_of(image(tmp_path, {**BASE}, {**AGENT}), LAYERS)
    finally:
        os.umask(before)
    assert (root / "etc/one").read_bytes() == b"1"
    assert (root / "threegate/agent/main").read_bytes() == b"agent"
    assert os.readlink(root / "bin") == "usr/bin"
    modes = [stat.S_IMODE((root / name).lstat().st_mode) for name in ("etc/one", "usr/bin/run")]
    assert modes == [0o444, 0o555]
    every = [path.lstat().st_mode for path in (root, *root.rglob("*"))]
    assert {stat.S_IMODE(mode) for mode in every if stat.S_ISDIR(mode)} == {0o755}
    assert tree_of(image(tmp_path, {**BASE}, {**AGENT}), LAYERS) == (root, digest)
    other = image(tmp_path, {**BASE, "etc/one": b"2"}, {**AGENT})
    assert tree_of(other, LAYERS)[1] != digest


@pytest.mark.parametrize("change", ["bytes", "mode", "more", "less", "link"])
# claim TG-C-212
def test_a_tree_that_was_changed_is_made_anew(change: str, tmp_path: Path) -> None:
    made = image(tmp_path, {**BASE}, {**AGENT})
    root, digest = tree_of(made, LAYERS)
    before = (root / "etc/one").stat().st_ino
    assert tree_of(made, LAYERS)[0].joinpath("etc/one").stat().st_ino == before, "control: kept"
    one = root / "etc/one"
    if change == "bytes":
        one.chmod(0o644)
        one.write_bytes(b"!")
        one.chmod(0o444)
    elif change == "mode":
        one.chmod(0o4555)
    elif change == "more":
        (root / "etc/two").write_bytes(b"")
    elif change == "less":
        one.unlink()
    else:
        one.unlink()
        one.symlink_to("/etc/passwd")
    assert tree_of(made, LAYERS) == (root, digest)
    assert (one.read_bytes(), one.stat().st_ino != before) == (b"1", True)
    assert sorted(path.name for path in (root / "etc").iterdir()) == ["one"]


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        ({"bin/evil": b"x"}, "File exists"),  # through a link of the layer below
        ({"etc/one": b"x"}, "File exists"),
        ({"bin": b"x"}, "File exists"),
        ({"etc": "/etc"}, "File exists"),
    ],
)
# claim TG-C-212
def test_what_would_lie_over_a_file_or_go_through_a_link_is_refused(
    agent: dict[str, bytes | str], why: str, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    base: dict[str, bytes | str] = {**BASE, "bin": str(outside)}
    assert tree_of(image(tmp_path / "i", base, {**AGENT}), LAYERS), "control"
    with pytest.raises(GateUnavailable, match=why) as caught:
        tree_of(image(tmp_path / "i", base, agent), LAYERS)
    assert caught.value.code == "TG-IMG-012"
    assert list(outside.iterdir()) == []


def test_a_layer_that_is_none_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    made = kept(tmp_path, **{"base.erofs": b"base" * 4096})
    with pytest.raises(GateUnavailable, match="damaged: layer base"):
        tree_of(made, LAYERS)
    assert not list(made.place.glob("tree-*"))
    assert not list(tmp_path.glob("making-*"))


def test_a_tree_goes_with_its_image(tmp_path: Path) -> None:
    made = image(tmp_path, {**BASE}, {**AGENT})
    root, _ = tree_of(made, LAYERS)
    Images(tmp_path).remove(made.digest)
    assert not root.exists()


# claim TG-C-282
def test_a_program_is_known_by_its_bytes_and_the_upper_layer_counts(tmp_path: Path) -> None:
    found = digests_in(image(tmp_path, {**BASE}, {**AGENT}), LAYERS, (RUN, ONE, "/bin", "/no"))
    assert found == {
        RUN: hashlib.sha256(b"#!run").hexdigest(),
        ONE: hashlib.sha256(b"1").hexdigest(),
    }, "links and what is not there have none"
    over = image(tmp_path, {**BASE}, {**AGENT, "usr/bin/run": b"other"})
    assert digests_in(over, LAYERS, (RUN,)) == {RUN: hashlib.sha256(b"other").hexdigest()}
    assert digests_in(over, LAYERS[:1], (RUN,)) == {RUN: hashlib.sha256(b"#!run").hexdigest()}


def test_a_layer_that_is_none_has_no_programs(tmp_path: Path) -> None:
    broken = image(tmp_path, {**BASE}, {**AGENT})
    broken.layers["base"].chmod(0o600)
    broken.layers["base"].write_bytes(b"x" * 8192)
    with pytest.raises(GateUnavailable, match="layer base"):
        digests_in(broken, LAYERS, (RUN,))
