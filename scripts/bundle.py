"""Pack dist/threegate-VERSION-bundle.tar.gz: everything to install ThreeGate without a network.

The archive holds the project's wheel, the locked wheels of its dependencies for this
interpreter and machine, their digests, and a script that checks them before it installs.
The same commit, lock and interpreter give the same bytes.
"""

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts"


def commit_time() -> int:
    """Return the time of the last commit: the only clock a repeatable archive may have."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def uncommitted() -> bool:
    command = ["git", "-C", str(ROOT), "status", "--porcelain"]
    return bool(subprocess.run(command, capture_output=True, check=True).stdout)


def build_wheel(into: Path, *, epoch: int) -> Path:
    """Build the project's wheel with the locked backend and return its path."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "HATCH_QUIET": "1"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    (wheel,) = into.glob("threegate-*.whl")
    return wheel


def download_wheels(into: Path) -> None:
    """Download the locked dependencies; pip compares every hash."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    options = ["--require-hashes", "--only-binary", ":all:", "--dest", str(into)]
    lock = ["-r", str(ROOT / "requirements" / "runtime.txt")]
    subprocess.run([*pip, *options, *lock], check=True)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fill(directory: Path, *, epoch: int) -> str:
    """Put the content of the bundle into `directory` and return the version."""
    wheels = directory / "wheels"
    wheels.mkdir()
    wheel = build_wheel(wheels, epoch=epoch)
    download_wheels(wheels)
    version = wheel.name.split("-")[1]
    lock = (ROOT / "requirements" / "runtime.txt").read_text("utf-8")
    own = f"threegate=={version} \\\n    --hash=sha256:{sha256(wheel)}\n"
    (directory / "requirements.txt").write_text(lock + own, "utf-8")
    shutil.copyfile(SCRIPTS / "install-bundle.sh", directory / "install.sh")
    shutil.copyfile(SCRIPTS / "describe_platform.py", directory / "describe.py")
    shutil.copyfile(ROOT / "LICENSE", directory / "LICENSE")
    describe = [sys.executable, str(SCRIPTS / "describe_platform.py")]
    built_for = subprocess.run(describe, capture_output=True, text=True, check=True).stdout
    (directory / "BUILT-FOR").write_text(built_for, "utf-8")
    write_sums(directory)
    return version


def write_sums(directory: Path) -> None:
    """Write SHA256SUMS over every other file, in the form of sha256sum."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    sums = [f"{sha256(path)}  {path.relative_to(directory)}\n" for path in files]
    (directory / "SHA256SUMS").write_text("".join(sums), "utf-8")


def pack(directory: Path, name: str, *, epoch: int) -> bytes:
    """Return `directory` as a gzipped tar that depends on nothing but names and bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(path for path in directory.rglob("*") if path.is_file()):
            member = tarfile.TarInfo(f"{name}/{path.relative_to(directory)}")
            member.size, member.mtime = path.stat().st_size, epoch
            member.mode = 0o755 if path.suffix == ".sh" else 0o644
            with path.open("rb") as content:
                archive.addfile(member, content)
    return gzip.compress(packed.getvalue(), mtime=0)


def make_bundle(into: Path) -> Path:
    """Write the bundle into `into` and return its path."""
    epoch = commit_time()
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        name = f"threegate-{fill(directory, epoch=epoch)}-bundle"
        packed = pack(directory, name, epoch=epoch)
    into.mkdir(exist_ok=True)
    bundle = into / f"{name}.tar.gz"
    bundle.write_bytes(packed)
    return bundle


def main() -> int:
    if uncommitted():
        print("threegate: warning: the bundle holds changes that no commit has", file=sys.stderr)
    bundle = make_bundle(ROOT / "dist")
    print(f"{sha256(bundle)}  {bundle.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
