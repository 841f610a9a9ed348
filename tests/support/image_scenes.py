"""The whole image, built by the generated script; run in a mount namespace of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from scripts.bundle import make_bundle
from tests.support.container_scenes import PROBE
from tests.support.containers import Containers
from tests.support.proxying import bundle
from threegate.host.deploy.files import generate, write
from threegate.host.deploy.place import Place

SECONDS = 900.0


def mirror() -> str:
    """Return where this machine's own packages come from."""
    listed = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)"]
    lines = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.splitlines()
    return next(line.split(" ")[0] for line in lines if line.endswith(" bookworm"))


def build(directory: Path) -> dict[str, Any]:
    """Build the image and start it; return what the program in it says."""
    files = directory / "infra"
    write(files, generate(bundle(), Place()))
    packed = make_bundle(directory / "dist")
    with Containers(directory, files, image=False) as containers:
        env = {**containers.env, "MIRROR": mirror()}
        script = [str(files / "containers" / "image.sh"), str(packed)]
        built = subprocess.run(script, env=env, capture_output=True, timeout=SECONDS, check=False)
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
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode("utf-8", "replace")
    return json.loads(ran.stdout.splitlines()[-1])


if __name__ == "__main__":
    os.umask(0o022)
    place = Path(sys.argv[1])
    (place / "told.json").write_text(json.dumps(build(place)), "utf-8")
