"""Debian packages of a lock: kept in the user's cache by digest, downloaded by this machine's apt.

    debs/<sha256>.deb

apt knows where this machine gets packages from.  It is asked for package records and for one
version of each package.

SECURITY
    Starts `apt-cache` and `apt-get download` with a short environment and an argument vector of
    checked names.  Nothing is installed, and apt gets no rights beyond those of the caller.  A
    package is compared with the lock before anything opens it, and again each time it is used.
    If this module is wrong, an image is built from bytes that nobody locked.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable, disk_errors
from threegate.base.text import quote
from threegate.host.images.lock import Lock, Package
from threegate.host.images.recipe import ARCHITECTURE, KERNEL, KERNEL_NAMED_BY, LAYERS
from threegate.host.images.store import Progress, digest_of
from threegate.sandbox.programs import PATH, find_program

NO_APT: Final = "TG-IMG-020"
NOT_OFFERED: Final = "TG-IMG-021"
NOT_DOWNLOADED: Final = "TG-IMG-022"
APT_SECONDS: Final = 1800.0
_SHOWN_CHARS: Final = 160
_MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
_PASSED_ON: Final = (
    *("HOME", "APT_CONFIG"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)
_FIELD: Final = re.compile(
    r"^(Package|Version|Architecture|Size|SHA256|Depends): (.*)$", re.MULTILINE
)

Record = Mapping[str, str]
OTHER_PACKAGE: Final = "TG-IMG-023"
AT_ONCE: Final = 8  # packages per call of apt, so that progress shows
_UPDATE: Final = "`threegate image lock --update` locks the versions that are offered now"
_KERNEL_NAME: Final = re.compile(r"linux-image-[0-9][0-9a-z.+-]*-cloud-amd64")


@dataclass(frozen=True, slots=True)
class Apt:
    """apt as it is set up on this machine."""

    environ: Mapping[str, str]

    def records(self, names: Sequence[str]) -> dict[str, Record]:
        """Return the record of the version that apt would install now, by package.

        Raises `GateUnavailable` if there is no apt; a package it does not know is left out.
        """
        # The exit status is the same without lists and for an unknown name: only output counts.
        shown = self._run("apt-cache", "show", "--no-all-versions", "--", *names).stdout
        found: dict[str, Record] = {}
        for record in _parsed(shown):
            found.setdefault(record["Package"], record)
        return found

    def versions(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return every version apt could download now, the preferred one first, by package."""
        shown = self._run("apt-cache", "show", "--", *names).stdout
        preferred = self.records(names)
        found = {name: [record["Version"]] for name, record in preferred.items()}
        for record in _parsed(shown):
            found.setdefault(record["Package"], []).append(record.get("Version", ""))
        return {name: tuple(dict.fromkeys(versions)) for name, versions in found.items()}

    def download(self, packages: Iterable[Package], directory: Path) -> None:
        """Download packages into a directory; raise `GateUnavailable` if one is missing."""
        wanted = [f"{item.name}={item.version}" for item in packages]
        ended = self._run("apt-get", "--quiet=2", "download", "--", *wanted, cwd=directory)
        if ended.returncode != 0:
            raise _not_downloaded(_why(ended.stderr))

    def _run(
        self, program: str, *arguments: str, cwd: Path | None = None
    ) -> "subprocess.CompletedProcess[bytes]":
        path = find_program(program)
        if path is None:
            raise _no_apt(program)
        environment = {name: self.environ[name] for name in _PASSED_ON if self.environ.get(name)}
        try:
            return subprocess.run(
                [path, *arguments],
                env={**environment, "PATH": PATH, "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                cwd=cwd,
                timeout=APT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise _not_downloaded("no more data arrives") from exc
        except OSError as exc:
            raise _no_apt(program) from exc


def _parsed(shown: bytes) -> Iterator[Record]:
    for block in shown[:_MAX_ANSWER_BYTES].decode("utf-8", "replace").split("\n\n"):
        record = dict(_FIELD.findall(block))
        if "Package" in record:
            yield record


def _why(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    shown = [line for line in lines if line.startswith("E:")] or lines or ["no reason given"]
    return quote(shown[0][:_SHOWN_CHARS])


def _no_apt(program: str) -> GateUnavailable:
    hint = "build on Debian 12, and bring it here with `threegate image export` and `import`"
    return GateUnavailable(
        f"there is no {program} here to get packages with", code=NO_APT, hint=hint
    )


def _not_downloaded(why: str) -> GateUnavailable:
    hint = "run the command again, complete packages are kept; `apt-get update` renews apt's lists"
    return GateUnavailable(f"packages were not downloaded: {why}", code=NOT_DOWNLOADED, hint=hint)


@dataclass(frozen=True, slots=True)
class Packages:
    """The package cache of one user, and the apt that fills it."""

    root: Path
    apt: Apt

    def path(self, package: Package) -> Path:
        """Return the path of a package in the cache."""
        return self.root / f"{package.sha256}.deb"

    def bring(self, wanted: Sequence[Package], progress: Progress = lambda _: None) -> None:
        """Download missing packages; raise `GateUnavailable` if one is not as locked."""
        with disk_errors("make the place for packages"):
            self.root.mkdir(parents=True, exist_ok=True)
        missing = []
        for package in wanted:
            if self._is_here(package):
                progress(package.size)
            else:
                missing.append(package)
        if missing:
            self._refuse_not_offered(missing)
        for start in range(0, len(missing), AT_ONCE):
            self._bring_some(missing[start : start + AT_ONCE], progress)

    def _is_here(self, package: Package) -> bool:
        path = self.path(package)
        return path.is_file() and not path.is_symlink() and digest_of(path) == package.sha256

    def _bring_some(self, wanted: Sequence[Package], progress: Progress) -> None:
        with disk_errors("keep a package"):
            place = Path(tempfile.mkdtemp(dir=self.root))
            try:
                self.apt.download(wanted, place)
                came = {digest_of(path): path for path in sorted(place.iterdir())}
                for package in wanted:
                    if package.sha256 not in came:
                        raise _another(package)
                    came[package.sha256].replace(self.path(package))
                    progress(package.size)
            finally:
                shutil.rmtree(place, ignore_errors=True)

    def _refuse_not_offered(self, wanted: Sequence[Package]) -> None:
        """Raise for locked versions that apt no longer offers, before anything is downloaded."""
        offered = self.apt.versions([package.name for package in wanted])
        gone = [item for item in wanted if item.version not in offered.get(item.name, ())]
        if not gone:
            return
        first = gone[0]
        now = offered.get(first.name, ())
        what = f"apt offers {now[0]} now" if now else "apt does not know the package"
        more = f", and {len(gone) - 1} more" if len(gone) > 1 else ""
        message = f"{first.name} {first.version} is no longer offered: {what}{more}"
        hint = f"`apt-get update` if apt's lists are old; {_UPDATE}; or import an image"
        raise GateUnavailable(message, code=NOT_OFFERED, hint=hint)


def resolve(apt: Apt) -> Lock:
    """Return a lock of the versions that apt would install now; raise `GateUnavailable`."""
    names = [name for packages in LAYERS.values() for name in packages]
    records = apt.records([*names, KERNEL_NAMED_BY])
    kernel = _KERNEL_NAME.search(records.get(KERNEL_NAMED_BY, {}).get("Depends", ""))
    if kernel is None:
        raise _unknown([KERNEL_NAMED_BY])
    records |= apt.records([kernel[0]])
    layers = {**LAYERS, KERNEL: (kernel[0],)}
    unknown = [name for name in (*names, kernel[0]) if name not in records]
    if unknown:
        raise _unknown(unknown)
    return Lock.of(
        _locked(layer, records[name]) for layer, packages in layers.items() for name in packages
    )


def _locked(layer: str, record: Record) -> Package:
    architecture = record.get("Architecture", "")
    if architecture not in {ARCHITECTURE, "all"} or "SHA256" not in record:
        raise _unknown([record["Package"]])
    return Package(
        layer=layer,
        name=record["Package"],
        version=record["Version"],
        architecture=architecture,
        size=int(record["Size"]),
        sha256=record["SHA256"],
    )


def _unknown(names: Iterable[str]) -> GateUnavailable:
    listed = list(names)
    more = f" and {len(listed) - 1} more" if len(listed) > 1 else ""
    message = f"apt does not offer {listed[0]}{more} for {ARCHITECTURE}"
    hint = "is this Debian 12, and did `apt-get update` run? an image can also be imported"
    return GateUnavailable(message, code=NOT_OFFERED, hint=hint)


def _another(package: Package) -> GateUnavailable:
    message = f"{package.name} {package.version} does not have the locked digest"
    hint = f"nothing of it was opened; {_UPDATE}"
    return GateUnavailable(message, code=OTHER_PACKAGE, hint=hint)
