"""A batch of DOIs on the test internet, next to plain curl through Squid with the same names.

Ours asks through its own proxy, reads every answer in a fresh box, checks the packet and stores
it with its raw bytes, every step in the log.  curl keeps one connection and writes files.  One
connection each, as Crossref wants it; the rate of the rule is as high as a rule can say.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench.fetch_world import HOST, WORLD, dois
from bench.figures import Plain, Sizes, compare
from bench.measure import say
from bench.proxy import PORT, SQUID
from tests.support.cli import made, write
from tests.support.internet import Internet, run_inside
from tests.support.squid import Squid
from threegate.artifacts.ids import sha256_hex
from threegate.host.deploy.squid import inside_addresses

FETCH = (sys.executable, "-m", "threegate", "fetch", "--enrich", "none", "-f", "-")
FASTEST = ("rate_per_minute: 240", "rate_per_minute: 6000")
PER_SECOND = 4.0  # what the shipped rule allows for Crossref
WHAT = "DOIs of a batch into packets"


def run(sizes: Sizes, _: Path) -> Plain:
    """Measure in namespaces of its own, and return rows."""
    with tempfile.TemporaryDirectory(prefix="threegate-bench-") as place:
        directory = Path(place)
        (directory / "count.json").write_text(json.dumps(max(3, sizes.singles // 2)), "utf-8")
        return {"rows": run_inside("bench.fetch:inside", directory), "curves": []}


def inside(directory: Path) -> list[Plain]:
    """Measure; run by `run_inside`."""
    count: int = json.loads((directory / "count.json").read_text("utf-8"))
    directory.chmod(0o755)
    with ExitStack() as stack:
        world = stack.enter_context(Internet(directory, WORLD, names=True))
        logs = directory / "squid"
        conf = SQUID % (HOST, "".join(inside_addresses()), logs, logs)
        stack.enter_context(Squid(directory, conf, PORT))
        say(f"fetch: {count} DOIs")
        theirs = _curl(directory, world.ca, count)
        ours, again = _threegate(directory, world.ca, count)
    rows = [("plain curl through Squid, to files", theirs), ("the same again: already here", again)]
    return [
        compare(
            WHAT,
            count / ours,
            peer=peer,
            theirs=count / seconds,
            unit="DOIs/s",
            target=f"{PER_SECOND:.0f}/s, the rate Crossref's rule allows" if not place else "",
            met=count / ours >= PER_SECOND if not place else None,
        )
        for place, (peer, seconds) in enumerate(rows)
    ]


def _curl(directory: Path, ca: Path, count: int) -> float:
    lines = [f"proxy = http://127.0.0.1:{PORT}", f"cacert = {ca}", "silent", "fail"]
    for doi in dois(count):
        name = doi.replace("/", "%2F")
        lines += [f"url = https://{HOST}/works/{name}", f"output = {directory}/{name}.json"]
    config = write(directory / "curl.conf", "\n".join(lines).encode())
    begin = time.perf_counter()
    subprocess.run(["curl", "-K", config], check=True)
    seconds = time.perf_counter() - begin
    assert len(list(directory.glob("*.json"))) > count
    return seconds


def _threegate(directory: Path, ca: Path, count: int) -> tuple[float, float]:
    home = directory / "home"
    home.mkdir()
    cli = made(home)
    assert cli.workspace is not None
    anchor = ca.read_bytes()
    write(cli.workspace / "policy/anchors/bench.pem", anchor)
    file = cli.workspace / "policy/fetch.policy.md"
    listed = ("[system]", f'[system, "sha256:{sha256_hex(anchor)}"]')
    text = file.read_text("utf-8")
    for old, new in (listed, FASTEST):
        text = text.replace(old, new, 1)
    file.write_text(text, "utf-8")
    cli("policy", "apply", "--yes")
    names = "\n".join(f"doi:{doi}" for doi in dois(count)).encode()
    laps = []
    for _ in range(2):
        begin = time.perf_counter()
        subprocess.run(
            FETCH, input=names, env=cli.env(PATH=os.environ["PATH"]), cwd=home / "ws", check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        laps.append(time.perf_counter() - begin)
    packets = list((cli.workspace / "handoff/packets/accepted").iterdir())
    assert len(packets) == count
    return laps[0], laps[1]
