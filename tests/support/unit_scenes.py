"""The generated units under a real systemd, in a container; run by `internet.run_inside`.

The container is privileged, for systemd builds the walls of its units itself.  Whatever would
change this machine (kernel settings, modules, clocks, devices) is masked in there.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.containers import MOUNTED, PROBE, Containers
from tests.support.internet import Internet
from tests.support.proxies import bundle
from threegate.host.deploy.containers import PROGRAM
from threegate.host.deploy.files import generate, write
from threegate.host.deploy.place import Place as Machine
from threegate.host.deploy.place import default_uids
from threegate.host.deploy.units import GATEWAY_SOCKET

SECONDS = 30.0
NAME = "units"
MASKED = (
    *("dbus.service", "dbus.socket", "dev-hugepages.mount", "dev-mqueue.mount"),
    *("kmod-static-nodes.service", "network-online.target", "podman-restart.service"),
    *("podman.service", "podman.socket", "proc-sys-fs-binfmt_misc.automount"),
    *("sys-fs-fuse-connections.mount", "sys-kernel-config.mount", "sys-kernel-debug.mount"),
    *("sys-kernel-tracing.mount", "systemd-binfmt.service", "systemd-journald-audit.socket"),
    *("systemd-logind.service", "systemd-modules-load.service", "systemd-random-seed.service"),
    *("systemd-remount-fs.service", "systemd-sysctl.service", "systemd-sysusers.service"),
    *("systemd-timesyncd.service", "systemd-tmpfiles-setup-dev.service"),
    *("systemd-tmpfiles-setup.service", "systemd-udev-trigger.service", "systemd-udevd.service"),
    *("systemd-update-utmp.service", "systemd-hwdb-update.service"),
)
ASK = "GET https://evil.example/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
# A client of the gateway's socket, and one of the proxy's, as the account that owns workspaces.
CLIENT = f"""
import json, os, socket
os.setgroups([])
os.setresgid({default_uids()["owner"]}, {default_uids()["owner"]}, {default_uids()["owner"]})
os.setresuid({default_uids()["owner"]}, {default_uids()["owner"]}, {default_uids()["owner"]})
def ask(path, request):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(20)
        sock.connect(path)
        sock.sendall(request.encode())
        return sock.recv(4096).split(b"\\r\\n")[0].decode()
tunnel = "CONNECT {{0}}:443 HTTP/1.1\\r\\nHost: {{0}}:443\\r\\n\\r\\n".format
print(json.dumps({{
    "gateway": ask({GATEWAY_SOCKET!r}, {ASK!r}),
    "proxy": ask("/run/threegate/proxy.sock", tunnel("api.crossref.org")),
    "proxy, other name": ask("/run/threegate/proxy.sock", tunnel("evil.example")),
}}))
"""


def scenes(directory: Path) -> dict[str, Any]:
    """Start the units; return their states, and what an owned gate reaches in its own."""
    directory.chmod(0o755)
    files, etc = directory / "infra", directory / "etc"
    rules = bundle()
    write(files, generate(rules, Machine()))
    _etc(etc, files, rules.bundle_bytes())
    with Internet(directory, names=True), Containers(directory, files) as containers:
        more = [word for path in MOUNTED for word in ("--volume", f"{path}:{path}:ro")]
        for path in etc.iterdir():
            more += ["--volume", f"{path}:/etc/{path.name}"]
        limits = ["--ulimit", "nproc=4096:4096", "--ulimit", "nofile=8192:8192"]
        containers.podman(
            *("run", "--detach", "--name", NAME, "--systemd=always", "--privileged", *limits),
            *("--network", "host", "--tmpfs", "/var", *more),
            *("--entrypoint", "/usr/lib/systemd/systemd", "localhost/threegate"),
            "--unit=sysinit.target",
        )
        return _play(containers)


def _play(containers: Containers) -> dict[str, Any]:
    def do(*argv: str) -> str:
        return containers.podman("exec", NAME, *argv).decode()

    _until(lambda: "active" in do("sh", "-c", "systemctl is-active sysinit.target || true"))
    names = ("threegate-proxy.service", "threegate-squid.service", "threegate-gateway.socket")
    do("systemctl", "start", *names)
    _until(lambda: "in-force" in _said(do, "threegate-proxy"))
    _until(lambda: "process" in _said(do, "threegate-squid"))
    time.sleep(1)  # whoever would die at once has died
    told: dict[str, Any] = {
        "states": {name: do("systemctl", "is-active", name).strip() for name in names},
        "restarts": {
            name: do("systemctl", "show", "-P", "NRestarts", name).strip() for name in names[:2]
        },
        "socket": do("stat", "-c", "%a %U %G", "/run/threegate/proxy.sock").strip(),
        "asked": json.loads(do(os.path.realpath(sys.executable), "-I", "-c", CLIENT)),
    }
    for gate in ("fetch", "tool"):
        do("systemctl", "start", f"threegate-{gate}.service")
        lines = _said(do, f"threegate-{gate}").splitlines()
        told[gate] = json.loads(next(line for line in lines if line.startswith('{"')))
        told[gate]["doctor"] = json.loads("\n".join(lines[lines.index("{") : lines.index("}") + 1]))
    return told


def _said(do: Any, unit: str) -> str:
    found: str = do("journalctl", "--no-pager", "--output=cat", f"--unit={unit}")
    return found


def _until(act: Any) -> None:
    end = time.monotonic() + SECONDS
    while True:
        try:
            if act():
                return
        except AssertionError:
            if time.monotonic() > end:
                raise
        assert time.monotonic() < end, "not in time"
        time.sleep(0.2)


def _etc(etc: Path, files: Path, rules: bytes) -> None:
    """Install the units as the document says, and an owned gate instead of each command."""
    units = etc / "systemd" / "system"
    units.mkdir(parents=True)
    for path in (files / "systemd").iterdir():
        if path.suffix != ".conf":
            (units / path.name).write_text(path.read_text("utf-8"), "utf-8")
    for name in MASKED:
        (units / name).symlink_to("/dev/null")
    python = os.path.realpath(sys.executable)
    home = "[Service]\nProtectHome=no\n"  # the interpreter of the tests may be in one
    probe = etc / "threegate" / "probe.py"
    probe.parent.mkdir()
    probe.write_text(PROBE, "utf-8")
    owned = f"{home}ExecStart=\nExecStart={shlex.join((python, '-I', '/etc/threegate/probe.py'))}\n"
    owned += f"ExecStart=-{PROGRAM} doctor --json\n"
    for name, text in (("proxy", home), ("fetch", owned), ("tool", owned)):
        drop = units / f"threegate-{name}.service.d"
        drop.mkdir()
        (drop / "test.conf").write_text(text, "utf-8")
    (etc / "threegate" / "bundle.json").write_bytes(rules)
    conf = (files / "squid" / "squid.conf").read_text("utf-8")
    (etc / "threegate" / "squid.conf").write_text(conf, "utf-8")
    root = etc.parent / "root"  # accounts are made by the file that was generated
    (root / "etc" / "sysusers.d").mkdir(parents=True)
    accounts = (files / "systemd" / "sysusers.conf").read_text("utf-8")
    (root / "etc" / "sysusers.d" / "threegate.conf").write_text(accounts, "utf-8")
    subprocess.run(["systemd-sysusers", f"--root={root}"], check=True, capture_output=True)
    for name in ("passwd", "group"):
        text = (root / "etc" / name).read_text("utf-8")
        first = "root:x:0:0::/root:/bin/sh\n" if name == "passwd" else "root:x:0:\n"
        (etc / name).write_text(first + text, "utf-8")
    for name, text in (("machine-id", ""), ("nsswitch.conf", "passwd: files\ngroup: files\n")):
        (etc / name).write_text(text, "utf-8")
