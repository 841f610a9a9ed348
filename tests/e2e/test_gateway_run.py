"""A run that may ask some hosts, through the real command: guest, engine, gateway, proxy, HTTPS.

The far side is a test internet, which writes down every name it is asked for and every request.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import write
from tests.support.heavy import ENABLED, image
from tests.support.heavy import place as cache_place
from tests.support.internet_place import Place, PlaceCli, place_at, settle
from tests.support.origins.simple import HOST, RUNS_WORLD, UNLISTED
from tests.support.run_scenes import HELD, TEXTS

CODE = f"""\
import json, sys
import threegate_gateway as gateway
answer = gateway.get("https://{HOST}/rows?from=1", {{"Accept": "text/plain"}})
print(answer.status, answer.headers["content-type"], answer.text())
try:
    gateway.get("https://{UNLISTED}/rows")
except PermissionError as exc:
    print(exc)
try:
    import socket
except ImportError as exc:
    print(exc)
"""
OFFLINE = """\
try:
    import threegate_gateway
except ImportError as exc:
    print("allowed_imports" if "allowed_imports" in str(exc) else exc)
try:
    open("/run/inference.local")
except FileNotFoundError:
    print("no such place")
"""


@pytest.fixture(scope="module")
def internet() -> Iterator[Place]:
    with place_at(RUNS_WORLD) as found:
        yield found


def lane(
    internet: Place, base: Path, engine: str, texts: tuple[tuple[str, str], ...] = TEXTS
) -> PlaceCli:
    """Return a user on the test internet whose policy grants runs a gateway."""
    image()
    cli = settle(internet, base)
    cache = base / "cache"
    cache.mkdir()
    (cache / "threegate").symlink_to(cache_place())
    cli.environment["XDG_CACHE_HOME"] = str(cache)
    assert cli.workspace is not None
    path = cli.workspace / "policy" / "tool-exec.policy.md"
    text = path.read_text("utf-8")
    for old, new in (ENABLED, *texts):
        assert old in text, old
        text = text.replace(old, new.replace("qemu-emulation", engine), 1)
    path.write_text(text, "utf-8")
    cli("policy", "apply", "--yes")
    return cli


def asked(cli: PlaceCli, *more: str, program: Path | None = None) -> str:
    program = program or write(cli.base / "program.py", CODE.encode())
    found: str = cli(*new(program, *more), "--json").json["id"]
    return found


def new(program: Path, *more: str) -> list[str]:
    words = ["request", "new", "--purpose", "rows", "--code", str(program), "--backend", "era"]
    words += ["--why", "files", "--output", "unused=1KiB", "--ring", "online"]
    return [*words, "--limit", "memory_bytes=192MiB", "--limit", "wall_ms=240s", *more]


def ran(cli: PlaceCli, request_id: str) -> dict[str, Any]:
    """Approve and run a request; return its result as it is shown."""
    cli("review", "approve", request_id, "--yes")
    (run,) = cli("run", request_id, "--json").json["runs"]
    assert run["error"] is None, run
    shown: dict[str, Any] = cli("result", "show", run["result"], "--json").json
    return shown


def proofs(shown: dict[str, Any]) -> set[str]:
    return {item["mechanism"] for item in shown["fields"]["evidence"]}


@pytest.mark.parametrize(
    "engine", ["qemu-emulation", pytest.param("runsc", marks=pytest.mark.slow)]
)
# claim TG-C-265, TG-C-303
def test_a_run_asks_the_host_its_approval_names_and_no_other(internet: Place, engine: str) -> None:
    cli = lane(internet, internet.directory / engine, engine)
    assert cli.workspace is not None
    policy = (cli.workspace / "policy/tool-exec.policy.md").read_text("utf-8").split("\n")
    line = policy.index('      hosts: ["*.run-data.org"]') + 1
    hosts = f"policy/tool-exec.policy.md:{line}"
    before = len(internet.arrived())
    request_id = asked(cli, "--allow-host", HOST, "--up-bytes", "4KiB", "--down-bytes", "64KiB")
    sheet = cli("review", "show", request_id).out
    assert f"! {HOST}" in sheet
    assert "! 4KiB may leave and 64KiB may come, by GET, HEAD, POST" in sheet
    shown = ran(cli, request_id)
    fields, said = shown["fields"], shown["sections"]["Stdout"].split("\n")
    assert said[0] == "200 text/plain GET /rows?from=1 0", "control: what is listed answers"
    assert said[1] == f"refused by {hosts}: host-not-listed (the request does not list it)"
    assert said[2].startswith("import of socket is denied by"), "it has no other way to speak"
    (row,) = fields["carried"]
    assert (row["host"], row["requests"]) == (HOST, 1)
    assert 0 < row["up_bytes"] < 4096
    assert 0 < row["down_bytes"] < 65536
    first = fields["violations"][0]
    assert first == {
        "rule": "executor_network",
        "place": hosts,
        "argument": f"GET {UNLISTED}: host-not-listed",
        "line": 6,
    }
    met = internet.arrived()[before:]
    names = {event["name"] for event in met if event["event"] == "dns"}
    assert names == {HOST, "ipv4only.arpa"}, "no other name was ever asked for"
    assert {"run-gateway-exec", "run-gateway-network", "proxy-exec", "guest-no-network"} <= proofs(
        shown
    )
    assert "guest-ring-offline" not in proofs(shown)
    # What came is the result's, and no packet: nobody made one, and a result is none.
    assert cli("packet", "list", "--json").json["total"] == 0, "nothing became a packet"
    approval = cli.workspace / "handoff/approvals/spent" / f"{fields['approval']}.md"
    assert f'network: {{"hosts": ["{HOST}"], "up_bytes": 4096, "down_bytes": 65536}}' in (
        approval.read_text("utf-8")
    )


# claim TG-C-266
def test_the_same_profile_has_no_port_for_a_run_that_asks_for_no_network(internet: Place) -> None:
    cli = lane(internet, internet.directory / "offline", "runsc")
    program = write(cli.base / "other.py", OFFLINE.encode())
    before = len(internet.arrived())
    shown = ran(cli, asked(cli, program=program))
    assert shown["sections"]["Stdout"].split("\n")[:2] == ["allowed_imports", "no such place"]
    assert shown["fields"]["carried"] == []
    assert "guest-ring-offline" in proofs(shown)
    assert not {name for name in proofs(shown) if name.startswith(("run-gateway-", "proxy-"))}
    assert internet.arrived()[before:] == []


# claim TG-C-331, TG-C-332
def test_a_run_whose_hosts_the_kernel_holds_says_so_in_its_result(internet: Place) -> None:
    cli = lane(internet, internet.directory / "held", "runsc", HELD)
    before = len(internet.arrived())
    request_id = asked(cli, "--allow-host", HOST, "--up-bytes", "4KiB", "--down-bytes", "64KiB")
    assert "the kernel holds it to the addresses" in cli("review", "show", request_id).out
    shown = ran(cli, request_id)
    said = shown["sections"]["Stdout"].split("\n")
    assert said[0] == "200 text/plain GET /rows?from=1 0", "what is listed answers"
    assert {"run-proxy-addresses", "run-proxy-exec", "run-gateway-network"} <= proofs(shown)
    assert not {name for name in proofs(shown) if name.startswith("proxy-")}
    log = cli("audit", "show", "--json", "--limit", "500").json["items"]
    held = [entry["data"] for entry in log if entry["kind"] == "gateway.held"]
    assert [sorted(data) for data in held] == [["addresses"], ["passed", "refused"]]
    met = internet.arrived()[before:]
    names = {event["name"] for event in met if event["event"] == "dns"}
    assert names == {HOST, "ipv4only.arpa"}


# claim TG-C-305
def test_where_the_kernel_cannot_be_set_a_request_is_refused_with_the_line(internet: Place) -> None:
    words = ["--allow-host", HOST, "--up-bytes", "4KiB", "--down-bytes", "64KiB"]
    root = lane(internet, internet.directory / "root", "runsc", HELD)
    assert asked(root, *words).startswith("tr-"), "control: root may set nftables"
    with place_at(RUNS_WORLD, who="ordinary user") as place:
        user = lane(place, place.directory / "user", "runsc", HELD)
        assert user.workspace is not None
        policy = (user.workspace / "policy/tool-exec.policy.md").read_text("utf-8").split("\n")
        line = policy.index("    executor_network: kernel-allowlist") + 1
        program = write(user.base / "program.py", CODE.encode())
        done = user(*new(program, *words), code=77)
        reason = "heavy-python has no network kernel-allowlist: it needs nftables"
        assert reason in done.err
        assert f"policy/tool-exec.policy.md:{line}" in done.err
        assert user("request", "list", "--json").json["total"] == 0, "nothing is held"
