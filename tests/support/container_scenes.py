"""Containers on the test internet, from `infra write` on; run by `internet.run_inside`."""

import hashlib
import io
import json
import socket
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from tests.support.cli import Cli, made, write
from tests.support.containers import Containers
from tests.support.internet import Internet
from tests.support.squid import wait_until
from tests.support.wires import as_somebody
from threegate.host.deploy.containers import SOCKET
from threegate.host.deploy.place import OWNER, default_uids

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
