"""Somebody on the test internet who runs commands: the real `threegate`, unchanged.

A `Place` lives for a module of tests: making one takes a second.  It runs as whoever the test
says, in network and mount namespaces of its own.
"""

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.support.boxes import IS_ROOT, STARTERS, ordinary_uid, repository, starter
from tests.support.cli import PYTHON, Cli, Done, made, write
from tests.support.internet import (
    NAMESPACES,
    Internet,
    arrivals,
    events,
    make_system_authority,
    python,
    seal,
)

SECONDS = 120.0


class Place:
    """Namespaces with a test internet, and a process in them that does what it is told."""

    def __init__(self, directory: Path, world: str, *how: str, who: str = STARTERS[-1]) -> None:
        """Make them.

        `how` may be `sealed`: commands can write to `directory` and empty scratch places only;
        `system`: the test's authority is one of the system's.
        """
        directory.chmod(0o755)
        self.directory, self.who = directory, who
        self.own(directory)
        self._process = starter(who).start(
            "tests.support.internet_place:enter",
            (str(directory), world, *how),
            env={"PATH": os.environ["PATH"], "HOME": str(directory)},
            paths=(str(repository()),),
        )
        if self._process.stdout is None or self._process.stdout.readline() != b"ready\n":
            self._process.kill()
            raise AssertionError("no test internet: the lines above say why")

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    def own(self, path: Path) -> None:
        """Give what the test made to whoever runs the commands."""
        if IS_ROOT and self.who == "ordinary user":
            for item in (path, *path.rglob("*")):
                os.chown(item, ordinary_uid(), ordinary_uid(), follow_symlinks=False)

    def run(
        self,
        argv: Sequence[str],
        *,
        env: dict[str, str],
        cwd: Path,
        stdin: bytes = b"",
        seconds: float = SECONDS,
    ) -> Done:
        """Run one command, and return how it ended."""
        order = {"argv": list(argv), "env": env, "cwd": str(cwd), "seconds": seconds}
        order["stdin"] = base64.b64encode(stdin).decode()
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert answer["code"] is not None, f"still running after {seconds} s: {argv}"
        return Done(
            answer["code"], base64.b64decode(answer["out"]), base64.b64decode(answer["err"])
        )

    def seen(self) -> list[dict[str, Any]]:
        """Return everything that happened on the far side so far."""
        return events(self.directory / "world.jsonl")

    def arrived(self) -> list[dict[str, Any]]:
        """Return what happened so far, less the ends of connections: those may come late."""
        return arrivals(self.seen())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


@dataclass
class PlaceCli(Cli):
    """`tests.support.cli.Cli`, but on the test internet."""

    place: Place | None = field(default=None)

    def __call__(
        self,
        *argv: str | Path,
        code: int | None = 0,
        stdin: bytes = b"",
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> Done:
        assert self.place is not None
        done = self.place.run(
            [*PYTHON, *map(str, argv)],
            env=self.env(**(env or {})),
            cwd=cwd or self.base,
            stdin=stdin,
        )
        assert code is None or done.code == code, (
            f"exit {done.code}\n{done.raw_out!r}\n{done.raw_err!r}"
        )
        return done


@contextmanager
def place_at(world: str, *how: str, who: str = STARTERS[-1]) -> Iterator[Place]:
    """Make a place for as long as it is used; for a fixture of a module's scope."""
    with (
        tempfile.TemporaryDirectory(prefix="threegate-place-") as directory,
        Place(Path(directory), world, *how, who=who) as place,
    ):
        yield place


def settle(place: Place, base: Path, *changes: tuple[str, str]) -> PlaceCli:
    """Return a user on the test internet with a workspace whose policy lists the test's CA.

    `base` is a new directory below `place.directory`; `(old, new)` changes `fetch.policy.md`
    further before it is applied.
    """
    base.mkdir(parents=True)
    cli = made(base)
    assert cli.workspace is not None
    anchor = place.ca.read_bytes()
    write(cli.workspace / "policy/anchors/test-internet.pem", anchor)
    digest = hashlib.sha256(anchor).hexdigest()
    listed = ("trust_anchors: [system]", f'trust_anchors: [system, "sha256:{digest}"]')
    file = cli.workspace / "policy/fetch.policy.md"
    text = file.read_text("utf-8")
    for old, new in (listed, *changes):
        assert old in text, f"{old!r} does not stand in {file}"
        text = text.replace(old, new, 1)
    file.write_text(text, "utf-8")
    place.own(base)
    settled = PlaceCli(base, cli.workspace, place=place)
    settled("policy", "apply", "--yes")
    return settled


def enter() -> None:
    """Go into the namespaces as whoever this process runs as; the pipes stay."""
    argv = [*NAMESPACES, *python("tests.support.internet_place"), *sys.argv[1:]]
    os.execvp(argv[0], argv)  # noqa: S606


def _obey(order: dict[str, Any]) -> dict[str, Any]:
    try:
        ended = subprocess.run(
            order["argv"],
            env=order["env"],
            cwd=order["cwd"],
            input=base64.b64decode(order["stdin"]),
            capture_output=True,
            timeout=order["seconds"],
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"code": None}
    return {
        "code": ended.returncode,
        "out": base64.b64encode(ended.stdout).decode(),
        "err": base64.b64encode(ended.stderr).decode(),
    }


def main(directory: Path, world: str, *how: str) -> None:
    """Do what each line says until there is none."""
    os.umask(0o022)
    if "sealed" in how:
        seal(directory)
    with Internet(directory, world, names=True):
        if "system" in how:
            make_system_authority(directory)
        os.write(1, b"ready\n")
        for line in sys.stdin.buffer:
            os.write(1, json.dumps(_obey(json.loads(line))).encode() + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
