"""Containers started by the generated `run.sh`, on an image made of this machine's own files.

The image holds the directories and the program's entry; /usr, the interpreter and the sources
are read-only mounts, so it is there in a second.  Restrictions come from `run.sh` alone.  What
podman needs here (no hybrid control groups, limits it may set) stands in `_prepare`.
"""

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Self

from tests.support.internet import ROOT
from threegate.host.deploy.containers import IMAGE, PROGRAM, WORKSPACE
from threegate.host.deploy.place import OWNER, Place
from threegate.sandbox import kernel

SECONDS = 60.0
UNIFIED = "/sys/fs/cgroup/unified"
_DIRECTORIES = ("dev", "etc", "opt", "opt/threegate", "opt/threegate/bin", "proc", "run")
_CONF = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
# Everything a program needs that was not made for the image.
MOUNTED = tuple(dict.fromkeys(("/usr", "/etc/ssl", sys.base_prefix, str(ROOT))))


class Containers:
    """podman with a store of its own, and the generated files."""

    def __init__(self, directory: Path, files: Path, *, image: bool = True) -> None:
        """Prepare podman, and the image; `files` is where `threegate infra write` wrote."""
        self._files, self._place = files, Place()
        _prepare(directory)
        store = (("--root", "store"), ("--runroot", "run"), ("--tmpdir", "libpod"))
        places = [word for option, name in store for word in (option, str(directory / name))]
        self._podman = ("podman", *places, "--storage-driver", "overlay")
        self._env = {**os.environ, "CONTAINERS_CONF": str(directory / "containers.conf")}
        wrapper = directory / "podman"
        # Only what stands for the content of the image is added to what `run.sh` says.
        command = shlex.join(self._podman)
        lines = ("#!/bin/sh", "act=$1", "shift", '[ "$act" = run ] || MORE=')
        script = "\n".join((*lines, f'exec {command} "$act" $MORE "$@"', ""))
        wrapper.write_text(script, "utf-8")
        wrapper.chmod(0o755)
        self.env = {**self._env, "PODMAN": str(wrapper)}
        if image:
            self._import()

    def _import(self) -> None:
        entry = json.dumps([PROGRAM])
        imported = ["import", "--change", f"ENTRYPOINT {entry}", "-", IMAGE]
        self.podman(*imported, stdin=_image(self._place))

    def podman(self, *argv: str, stdin: bytes = b"") -> bytes:
        ran = subprocess.run(
            [*self._podman, *argv],
            env=self._env,
            input=stdin,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr.decode("utf-8", "replace")
        return ran.stdout

    def run(
        self, service: str, *argv: str, entry: str | None = None, own_files: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the script that was generated, as an operator does; `entry` replaces threegate.

        An image with `own_files` needs none of this machine's.
        """
        mounted = () if own_files else MOUNTED
        more = " ".join(f"--volume {path}:{path}:ro" for path in mounted)
        more += f" --entrypoint {entry}" if entry else ""
        env = {**self.env, "MORE": more}
        command = [str(self._files / "containers" / "run.sh"), service, *argv]
        return subprocess.run(command, env=env, capture_output=True, timeout=SECONDS, check=False)

    def fill(self, volume: str, content: Path) -> None:
        """Put a copy of a directory into a volume, as the account that works there."""
        self.podman("volume", "create", volume)
        mounted = self.podman("volume", "inspect", "--format", "{{.Mountpoint}}", volume)
        place = Path(mounted.decode().strip())
        shutil.copytree(content, place, dirs_exist_ok=True)
        for path in (place, *place.rglob("*")):
            os.chown(path, self._place.uids[OWNER], self._place.uids[OWNER])

    def attack(self, service: str, code: str) -> Any:
        """Return what a program prints as JSON, run with everything the script gives it."""
        ran = self.run(service, "-I", "-c", code, entry=os.path.realpath(sys.executable))
        assert ran.returncode == 0, ran.stderr.decode("utf-8", "replace")
        return json.loads(ran.stdout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.podman("rm", "--force", "--all", "--time", "1")


def _prepare(directory: Path) -> None:
    """Make this mount namespace one in which crun starts, apart from any other podman.

    podman keeps its locks in /dev/shm, one file for every store of an account, and clears them
    when a store is new: two runs at once would then wait for each other's containers.
    """
    kernel.mount("tmpfs", "/dev/shm", "tmpfs", 0)
    (directory / "containers.conf").write_text(_CONF, "utf-8")
    if os.path.ismount(UNIFIED):
        subprocess.run(["umount", UNIFIED], check=True)


def _image(place: Place) -> bytes:
    """Return the archive of the image: what `Containerfile` makes, without Debian's packages."""
    owner, proxy = place.uids[OWNER], place.uids["proxy"]
    python = os.path.realpath(sys.executable)
    paths = [path for path in sys.path if path]
    code = f"import sys; sys.path[:] = {paths!r}; from threegate.cli.main import main"
    code += "; sys.exit(main())"
    script = f'#!/bin/sh\nexec {shlex.quote(python)} -I -S -B -c {shlex.quote(code)} "$@"\n'
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for name in (*_DIRECTORIES, "srv", "sys", "tmp", "usr", "var"):
            _add(archive, name, tarfile.DIRTYPE, mode=0o755)
        for name, target in (("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")):
            _add(archive, name, tarfile.SYMTYPE, linkname=target)
        _add(archive, "run/threegate", tarfile.DIRTYPE, mode=0o750, uid=proxy, gid=owner)
        _add(archive, WORKSPACE[1:], tarfile.DIRTYPE, mode=0o700, uid=owner, gid=owner)
        _add(archive, PROGRAM[1:], tarfile.REGTYPE, data=script.encode(), mode=0o755)
    return held.getvalue()


def _add(
    archive: tarfile.TarFile, name: str, kind: bytes, *, data: bytes = b"", **more: Any
) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(data)
    for key, value in more.items():
        setattr(info, key, value)
    archive.addfile(info, io.BytesIO(data))
