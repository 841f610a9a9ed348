"""Trees on their way to a layer, and the recipe's rules."""

import io
import os
from pathlib import Path

import pytest

from tests.support.images import read
from threegate.host.images.build import add_own
from threegate.host.images.recipe import leaves_out
from threegate.host.images.tree import Tree


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
