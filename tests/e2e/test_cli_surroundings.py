"""What a command is started with: masks, names and descriptors nobody chose with care."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import PYTHON, Cli, made, write
from tests.support.samples import packet
from threegate.artifacts import registry


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = made(tmp_path)
    write(tmp_path / "packet.md", registry.emit(packet()))
    return cli


@pytest.mark.parametrize("mask", [0o000, 0o777, 0o027])
def test_the_mask_of_the_caller_decides_no_mode(tmp_path: Path, mask: int) -> None:
    cli = Cli(tmp_path, tmp_path / "ws")
    write(tmp_path / "packet.md", registry.emit(packet()))
    for argv in (("init", "ws"), ("admit", "packet.md"), ("packet", "list")):
        ended = subprocess.run(
            [*PYTHON, *argv],
            env=cli.env(),
            cwd=tmp_path,
            umask=mask,
            capture_output=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
    paths = [*(tmp_path / "ws").rglob("*"), *(tmp_path / ".config").rglob("*")]
    for path in paths:
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode & 0o022 == 0, f"{path} can be written by others: {mode:o}"
        assert mode & 0o400, f"{path} cannot be read by its owner: {mode:o}"
    assert len(paths) > 40, "control: there was something to look at"


@pytest.mark.parametrize("name", ["a" * 300, "b/" * 3000, "packet.md/below"])
@pytest.mark.parametrize(
    "argv", [("status", "-w"), ("init",), ("restore", "packet.md"), ("validate",), ("backup",)]
)
def test_names_the_system_refuses_are_no_bug(cli: Cli, argv: tuple[str, ...], name: str) -> None:
    done = cli(*argv, name, code=None)
    assert done.code in (2, 65, 69, 74), done.err
    assert "TG-BUG" not in done.err


def test_name_the_system_refuses_in_the_environment_is_no_bug(cli: Cli) -> None:
    for variable in ("THREEGATE_WORKSPACE", "XDG_CONFIG_HOME", "HOME"):
        done = cli("audit", "checkpoint", code=None, env={variable: "/" + "a" * 5000})
        assert done.code in (2, 69, 74), done.err
        assert "TG-BUG" not in done.err
    cli("audit", "checkpoint")  # control


def test_input_that_does_not_wait_is_read_to_its_end(cli: Cli) -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with subprocess.Popen(
        [*PYTHON, "validate", "-"],
        env=cli.env(),
        stdin=reader,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(reader)
        data = registry.emit(packet("x" * 19_000))
        for start in range(0, len(data), 8192):  # in parts, the first of them late
            os.write(writer, data[start : start + 8192])
        os.close(writer)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert registry.id_of(packet("x" * 19_000)).encode() in out
