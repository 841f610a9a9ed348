"""Containers started by the generated `run.sh`, on an image made of this machine's own files.

The image holds the directories and the program's entry; /usr, the interpreter and the sources
are read-only mounts, so it is there in a second.  Restrictions come from `run.sh` alone.  What
podman needs here (no hybrid control groups, limits it may set) stands in `_prepare`.
"""

import hashlib
import io
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tarfile
from contextlib import redirect_stdout
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

from scripts.bundle import make_bundle
from tests.support.cli import Cli, made, write
from tests.support.internet import ROOT, Internet
from tests.support.origin import GATEWAY, HERE
from tests.support.proxies import bundle
from tests.support.squid import Squid, gateway_conf, wait_until
from tests.support.wires import as_somebody
from threegate.host.deploy.containers import IMAGE, PROGRAM, SOCKET, WORKSPACE
from threegate.host.deploy.files import generate
from threegate.host.deploy.files import write as write_files
from threegate.host.deploy.place import OWNER, Place, default_uids
from threegate.host.workspace.workspace import open_workspace
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


# -- Containers on the test internet, from `infra write` on; run by `internet.run_inside`.

WORLD = "tests.support.origins.scholarly:world"
PROBE = (Path(__file__).parent / "container_probe.py").read_text("utf-8")
DOI = "doi:10.5555/threegate.ice.2024.17"
LOCAL_PORT = 9999


def operator(base: Path, ca: bytes, *, proxy: str = f"connect:{SOCKET}") -> Cli:
    """Return an operator whose policy believes the test's authority and names a proxy."""
    base.mkdir()
    cli = made(base)
    assert cli.workspace is not None
    write(cli.workspace / "policy/anchors/test.pem", ca)
    file = cli.workspace / "policy/fetch.policy.md"
    text = file.read_text("utf-8")
    digest = hashlib.sha256(ca).hexdigest()
    for old, new in (
        ("trust_anchors: [system]", f'trust_anchors: ["sha256:{digest}"]'),
        ("proxy: own", f"proxy: {proxy}"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    file.write_text(text, "utf-8")
    cli("policy", "apply", "--yes")
    return cli


def scenes(directory: Path) -> dict[str, Any]:
    """Return what each container reached, what the proxy decided and what arrived."""
    directory.chmod(0o755)
    with Internet(directory, WORLD, names=True) as world:
        cli = operator(directory / "operator", world.ca.read_bytes())
        assert cli.workspace is not None
        cli("infra", "write", directory / "infra")
        with (
            socket.create_server(("127.0.0.1", LOCAL_PORT)),
            Containers(directory, directory / "infra") as containers,
        ):
            containers.fill("threegate_workspace", cli.workspace)
            told = {"control": _without()}
            started = containers.run("proxy")
            assert started.returncode == 0, started.stderr.decode("utf-8", "replace")
            wait_until(lambda: b"in-force" in _log(containers), "the proxy has its rules")
            before = len(world.arrived())
            for service in ("core", "tool", "fetch"):
                told[service] = containers.attack(service, PROBE)
            told["world"] = world.arrived()[before:]
            told["proxy"] = _lines(containers)
            told |= _used(containers)
        return told


def _used(containers: Containers) -> dict[str, Any]:
    """Return how the real commands do in there."""
    doctor = containers.run("fetch", "doctor", "--json")
    fetched = containers.run("fetch", "fetch", DOI, "--enrich", "none", "--json")
    elsewhere = containers.run("core", "fetch", DOI, "--max-age", "0s")
    return {
        "doctor": json.loads(doctor.stdout),
        "fetched": fetched.stdout.decode("utf-8"),
        "fetched, said": fetched.stderr.decode("utf-8"),
        "elsewhere": elsewhere.stderr.decode("utf-8"),
        "proxy afterwards": _lines(containers),
    }


def _without() -> Any:
    """Return what the same program reaches in no container, as the same account."""

    def probe() -> Any:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(PROBE, {})  # noqa: S102  # the interpreter of the tests may be root's alone
        return json.loads(printed.getvalue())

    return as_somebody(default_uids()[OWNER], probe)()


def _log(containers: Containers) -> bytes:
    return containers.podman("logs", "threegate-proxy")


def _lines(containers: Containers) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _log(containers).splitlines()]


# -- `threegate fetch` through Squid as a gateway; run by `internet.run_inside`.

UNLISTED = "https://evil.example/page"


def gateway_scenes(directory: Path) -> dict[str, Any]:
    """Fetch one work; return what was said, what Squid logged and what arrived."""
    directory.chmod(0o755)
    with Internet(directory, WORLD, names=True) as world:
        socket = directory / "gateway.sock"
        ca = world.ca.read_bytes()
        cli = operator(directory / "operator", ca, proxy=f"gateway:{socket}")
        assert cli.workspace is not None
        workspace = open_workspace(cli.workspace)
        bundle = workspace.bundle
        workspace.close()
        where = Place(
            resolvers=(ip_address(GATEWAY),),
            own=(ip_address(HERE),),
            logs=str(directory / "squid"),
            anchors=str(directory / "anchors"),
        )
        conf = gateway_conf(bundle, directory, world.ca, where)
        with Squid(directory, conf, where.port) as squid:
            squid.socket.chmod(0o666)
            done = cli("fetch", DOI, "--enrich", "none", "--json", code=None)
            again = cli(
                "fetch", "doi:10.5555/nobody.knows", "--enrich", "none", "--json", code=None
            )
            refused = cli("fetch", UNLISTED, "--json", code=None)
        # Squid writes a line after the answer has left: all of them are there when it has ended.
        return {
            "fetched": done.json["items"],
            "unknown": again.json["items"],
            "refused": refused.json["items"] if refused.raw_out else refused.err,
            "log": squid.log(),
            "world": world.seen(),
        }


# -- The whole image, built by the generated script; run in a mount namespace of its own.

BUILD_SECONDS = 900.0


def mirror() -> str:
    """Return where this machine's own packages come from."""
    listed = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)"]
    lines = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.splitlines()
    return next(line.split(" ")[0] for line in lines if line.endswith(" bookworm"))


def build(directory: Path) -> dict[str, Any]:
    """Build the image and start it; return what the program in it says."""
    files = directory / "infra"
    write_files(files, generate(bundle(), Place()))
    packed = make_bundle(directory / "dist")
    with Containers(directory, files, image=False) as containers:
        env = {**containers.env, "MIRROR": mirror()}
        script = [str(files / "containers" / "image.sh"), str(packed)]
        built = subprocess.run(
            script, env=env, capture_output=True, timeout=BUILD_SECONDS, check=False
        )
        assert built.returncode == 0, (built.stdout + built.stderr)[-4000:].decode()
        doctor = containers.run("tool", "doctor", "--json", own_files=True)
        version = containers.run("core", "--version", own_files=True)
        assert version.returncode == 0, version.stderr.decode()
        return {
            "doctor": json.loads(doctor.stdout),
            "version": version.stdout.decode(),
            "compose": composed(directory, files, containers.env),
        }


def composed(directory: Path, files: Path, env: dict[str, str]) -> Any:
    """Return what an owned FETCH reaches when podman-compose starts it, from its registry."""
    tools = directory / "tools"
    subprocess.run([sys.executable, "-m", "venv", tools], check=True)
    pip = [
        str(tools / "bin/python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
    ]
    subprocess.run([*pip, "podman-compose"], check=True)
    # Debian's own interpreter, which is in the image, instead of the program.
    override = {"services": {"fetch": {"entrypoint": ["/usr/bin/python3"]}}}
    (directory / "override.json").write_text(json.dumps(override), "utf-8")
    compose = [str(tools / "bin/podman-compose"), "--podman-path", env["PODMAN"]]
    for file in (files / "containers/compose.yaml", directory / "override.json"):
        compose += ["-f", str(file)]
    ran = subprocess.run(
        [*compose, "run", "--rm", "-T", "fetch", "-I", "-c", PROBE],
        env=env,
        cwd=files / "containers",
        capture_output=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode("utf-8", "replace")
    return json.loads(ran.stdout.splitlines()[-1])


if __name__ == "__main__":
    os.umask(0o022)
    place = Path(sys.argv[1])
    (place / "told.json").write_text(json.dumps(build(place)), "utf-8")
