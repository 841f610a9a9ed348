"""`threegate fetch` through Squid as a gateway; run by `internet.run_inside`."""

from ipaddress import ip_address
from pathlib import Path
from typing import Any

from tests.support.container_scenes import DOI, WORLD, operator
from tests.support.internet import Internet
from tests.support.origin import GATEWAY, HERE
from tests.support.squid import Squid, gateway_conf
from threegate.host.deploy.place import Place
from threegate.host.workspace.workspace import open_workspace

UNLISTED = "https://evil.example/page"


def scenes(directory: Path) -> dict[str, Any]:
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
            return {
                "fetched": done.json["items"],
                "unknown": again.json["items"],
                "refused": refused.json["items"] if refused.raw_out else refused.err,
                "log": squid.log(),
                "world": world.seen(),
            }
