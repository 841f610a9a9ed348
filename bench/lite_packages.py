"""What peers need that is not ThreeGate's: exact archives, by digest, outside the checkout.

Fetched by name and version with the registries' ordinary clients, and by `bench/run.py`
alone: a test measures with what is there and never reaches the network.
"""

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.measure import say

FETCH_SECONDS: Final = 180


@dataclass(frozen=True, slots=True)
class Package:
    """One archive of a registry."""

    name: str
    version: str
    sha256: str
    client: tuple[str, ...]  # leaves the archive in the directory it runs in
    inside: str  # where in the archive what we need lies

    @property
    def place(self) -> Path:
        """Return where it lies when it was fetched."""
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(base) / "threegate" / "peers" / self.sha256

    @property
    def title(self) -> str:
        """Return its name and version."""
        return f"{self.name} {self.version}"


PYODIDE: Final = Package(
    "Pyodide",
    "314.0.7",
    "66b7949e5a0cba2250b586d7e368bf12fb482800748d182c4618254b685ffaa0",
    ("npm", "pack", "--silent", "pyodide@314.0.7"),
    "package/",
)
RESTRICTED: Final = Package(
    "RestrictedPython",
    "8.5",
    "6c70e0a3af13e830d37225788cdc8ab5804a8df4b500c135086eaef34b5c01e0",
    ("python3", "-m", "pip", "--quiet", "download", "--no-deps", "RestrictedPython==8.5"),
    "RestrictedPython/",
)
PACKAGES: Final = (PYODIDE, RESTRICTED)


def fetch(package: Package) -> None:
    """Fetch what is not there; a package that cannot be had is said to be missing."""
    if package.place.exists():
        return
    with tempfile.TemporaryDirectory() as directory:
        try:
            archive = _archive(package, Path(directory))
        except (OSError, subprocess.SubprocessError, ValueError) as exc:
            say(f"lite: {package.title} cannot be had here: {exc}")
            return
        _unpack(package, archive)


def _archive(package: Package, directory: Path) -> Path:
    subprocess.run(
        package.client, check=True, capture_output=True, cwd=directory, timeout=FETCH_SECONDS
    )
    (found,) = directory.iterdir()
    if hashlib.sha256(found.read_bytes()).hexdigest() != package.sha256:
        raise ValueError("the archive has another digest")
    return found


def _unpack(package: Package, archive: Path) -> None:
    """Put the files in place at once: what is there is whole."""
    package.place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=package.place.parent))
    for name, data in _files(archive):
        if name.startswith(package.inside):
            target = unfinished / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    try:
        unfinished.rename(package.place)
    except OSError:  # somebody else was faster
        shutil.rmtree(unfinished)


def _files(archive: Path) -> Iterator[tuple[str, bytes]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as packed:
            yield from ((name, packed.read(name)) for name in packed.namelist())
        return
    with tarfile.open(archive) as tape:
        for member in tape:
            content = tape.extractfile(member)
            if content is not None:
                yield member.name, content.read()
