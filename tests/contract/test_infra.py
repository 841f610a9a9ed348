"""`infra/` is what the shipped policy generates, and the programs it is for accept it.

`THREEGATE_WRITE_GOLDEN=1` writes the files anew; the diff is what a reviewer has to agree to.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.policies import policy
from threegate.host.deploy.files import generate, write
from threegate.host.deploy.place import Place

ROOT = Path(__file__).parent.parent.parent
INFRA = ROOT / "infra"
FILES = generate(policy(), Place())
UNITS = sorted(name for name in FILES if name.endswith((".service", ".socket")))
# What `systemd-analyze security` says at most, from 0 (nothing left) to 10. A unit that starts
# boxes keeps the namespaces they are made of.
MOST_EXPOSED = {
    "threegate-squid.service": 1.5,
    "threegate-gateway.service": 1.5,
    "threegate-proxy.service": 4.5,
    "threegate-fetch.service": 4.0,
    "threegate-tool.service": 4.0,
}


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


def test_infra_is_what_the_shipped_policy_generates() -> None:
    if os.environ.get("THREEGATE_WRITE_GOLDEN") == "1":
        write(INFRA, FILES)
    found = {
        str(path.relative_to(INFRA)): path.read_text("utf-8")
        for path in INFRA.rglob("*")
        if path.is_file() and path.name != "gates.table"
    }
    assert sorted(found) == sorted(FILES)
    for name, text in FILES.items():
        assert found[name] == text, f"infra/{name} is not what the policy says"


@pytest.mark.parametrize("variant", ["laptop", "strict"])
def test_nft_accepts_the_firewall(variant: str) -> None:
    checked = run("unshare", "--net", "nft", "-c", "-f", str(INFRA / f"firewall/{variant}.nft"))
    assert (checked.returncode, checked.stderr) == (0, "")


def test_squid_accepts_its_configuration() -> None:
    checked = run("squid", "-k", "parse", "-f", str(INFRA / "squid/squid.conf"))
    assert checked.returncode == 0, checked.stderr
    said = [line for line in checked.stderr.splitlines() if re.search("WARN|ERR|FATAL", line)]
    # RFC 9110 wants a proxy to name itself; that names the operator's machine to every origin.
    assert [line.partition("| ")[2] for line in said] == ["WARNING: HTTP requires the use of Via"]


def test_shells_accept_the_scripts() -> None:
    for name in ("containers/run.sh", "containers/image.sh"):
        checked = run("sh", "-n", str(INFRA / name))
        assert (checked.returncode, checked.stderr) == (0, "")


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """Programs that this machine does not have are replaced; everything else is as shipped."""
    for name in UNITS:
        text = re.sub(r"(?m)^(Exec\w+=)\S+", r"\1/bin/true", FILES[name])
        (tmp_path / Path(name).name).write_text(text, "utf-8")
    found = run("systemd-analyze", "verify", "--man=no", *map(str, tmp_path.iterdir()))
    assert (found.returncode, found.stderr) == (0, "")
    # Control: it reads what it is given.
    (tmp_path / "threegate-tool.service").write_text("[Service]\nExecStrat=/bin/true\n", "utf-8")
    found = run("systemd-analyze", "verify", "--man=no", str(tmp_path / "threegate-tool.service"))
    assert "ExecStrat" in found.stderr


@pytest.mark.parametrize("name", MOST_EXPOSED)
def test_units_leave_little(name: str) -> None:
    told = run("systemd-analyze", "security", "--offline=yes", str(INFRA / "systemd" / name))
    level = re.search(r"exposure level for \S+: ([0-9.]+)", told.stdout)
    assert level is not None, told.stderr
    assert float(level[1]) <= MOST_EXPOSED[name], told.stdout
