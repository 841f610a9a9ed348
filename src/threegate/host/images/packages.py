"""The packages of a lock: kept in the user's cache by digest, brought by apt if they are not there.

    debs/<sha256>.deb

SECURITY
    Nothing has opened a package before its digest was compared with the lock, nor if it is
    another one; it is compared again each time it is used.
"""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable, disk_errors
from threegate.host.images.apt import NOT_OFFERED, Apt, Record
from threegate.host.images.lock import Lock, Package
from threegate.host.images.recipe import ARCHITECTURE, KERNEL, KERNEL_NAMED_BY, LAYERS
from threegate.host.images.store import digest_of

OTHER_PACKAGE: Final = "TG-IMG-023"
AT_ONCE: Final = 8  # packages apt is asked for at a time, so that progress shows
_UPDATE: Final = "`threegate image lock --update` locks the versions that are offered now"
_KERNEL_NAME: Final = re.compile(r"linux-image-[0-9][0-9a-z.+-]*-cloud-amd64")

Told = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages of one user, and where new ones come from."""

    root: Path
    apt: Apt

    def path(self, package: Package) -> Path:
        """Return where a package lies, or will."""
        return self.root / f"{package.sha256}.deb"

    def bring(self, wanted: Sequence[Package], told: Told = lambda _: None) -> None:
        """Bring what is not here; raise `GateUnavailable` if one does not come or is another."""
        with disk_errors("make the place for packages"):
            self.root.mkdir(parents=True, exist_ok=True)
        missing = []
        for package in wanted:
            if self._is_here(package):
                told(package.size)
            else:
                missing.append(package)
        if missing:
            self._refuse_not_offered(missing)
        for start in range(0, len(missing), AT_ONCE):
            self._bring_some(missing[start : start + AT_ONCE], told)

    def _is_here(self, package: Package) -> bool:
        path = self.path(package)
        return path.is_file() and not path.is_symlink() and digest_of(path) == package.sha256

    def _bring_some(self, wanted: Sequence[Package], told: Told) -> None:
        with disk_errors("keep a package"):
            place = Path(tempfile.mkdtemp(dir=self.root))
            try:
                self.apt.download(wanted, place)
                came = {digest_of(path): path for path in sorted(place.iterdir())}
                for package in wanted:
                    if package.sha256 not in came:
                        raise _another(package)
                    came[package.sha256].replace(self.path(package))
                    told(package.size)
            finally:
                shutil.rmtree(place, ignore_errors=True)

    def _refuse_not_offered(self, wanted: Sequence[Package]) -> None:
        """Say which locked versions are gone, before anything is downloaded."""
        offered = self.apt.versions([package.name for package in wanted])
        gone = [item for item in wanted if item.version not in offered.get(item.name, ())]
        if not gone:
            return
        first = gone[0]
        now = offered.get(first.name, ())
        what = f"apt offers {now[0]} now" if now else "apt does not know the package"
        more = f", and {len(gone) - 1} more" if len(gone) > 1 else ""
        message = f"{first.name} {first.version} is not to be had any more: {what}{more}"
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
    message = f"{package.name} {package.version} came with another digest than the locked one"
    hint = f"nothing of it was opened; {_UPDATE}"
    return GateUnavailable(message, code=OTHER_PACKAGE, hint=hint)
