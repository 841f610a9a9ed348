"""Who reaches what under the generated firewall; run by `internet.run_inside`."""

import json
import subprocess
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from tests.support.policies import altered, policy
from tests.support.wires import GATEWAY, MODEL_PORT, Wire
from threegate.host.deploy.firewall import firewall
from threegate.host.deploy.place import Place
from threegate.sandbox.attacks.silence import says_nothing

SERVER = {"kind": "bridge", "endpoint": f"127.0.0.1:{MODEL_PORT}", "sha256": None}
SOMEBODY = 4242
PLACE = Place(resolvers=(ip_address(GATEWAY),))
UIDS = {**PLACE.uids, "somebody": SOMEBODY, "root": 0}


def scenes(directory: Path) -> dict[str, Any]:
    """Return who reached what: without rules, and with each variant."""
    directory.chmod(0o755)
    rules = altered(policy(), lambda sections: sections["core"]["model"].update(SERVER))
    told: dict[str, Any] = {}
    with Wire(directory) as wire:
        told["none"] = {"reached": wire.sweep({"fetch-retrieve": UIDS["fetch-retrieve"]})}
        told["none"]["far"] = wire.arrived()
        told["none"]["silent"] = _silent()
        for variant in ("laptop", "strict"):
            file = directory / f"{variant}.nft"
            file.write_text(firewall(rules, PLACE, strict=variant == "strict"), "utf-8")
            subprocess.run(["nft", "-f", file], check=True)
            told[variant] = {"reached": wire.sweep(UIDS), "far": wire.arrived()}
            told[variant]["silent"] = _silent()
            listed = ["nft", "--json", "list", "counters", "table", "inet", "threegate"]
            counted = json.loads(subprocess.run(listed, capture_output=True, check=True).stdout)
            told[variant]["counters"] = {
                item["counter"]["name"]: item["counter"]["packets"]
                for item in counted["nftables"]
                if "counter" in item
            }
    return told


def _silent() -> list[str]:
    """Return whom the doctor would find silenced."""
    return [name for name, uid in UIDS.items() if says_nothing(uid)]
