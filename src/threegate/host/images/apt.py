"""apt, which knows where this machine gets Debian's packages from.

It is asked for records of packages and for one version of each; what comes is compared with
the lock before anything opens it.

SECURITY
    Starts `apt-cache` and `apt-get download` with a short environment, an argument vector
    of checked names, and nothing to install: neither needs or gets root's rights beyond those
    of the caller.  If this module is wrong, packages do not come, or come that the lock
    refuses.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate.base.errors import GateUnavailable
from threegate.base.text import quote
from threegate.host.images.lock import Package
from threegate.sandbox.programs import PATH, find_program

NO_APT: Final = "TG-IMG-020"
NOT_OFFERED: Final = "TG-IMG-021"
NOT_DOWNLOADED: Final = "TG-IMG-022"
SECONDS: Final = 1800.0
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


@dataclass(frozen=True, slots=True)
class Apt:
    """apt as it is set up on this machine."""

    environ: Mapping[str, str]

    def records(self, names: Sequence[str]) -> dict[str, Record]:
        """Return the record of the version that apt would install now, by package.

        Raises `GateUnavailable` if there is no apt; a package it does not know is left out.
        """
        # It ends alike without lists and for a name it does not know: what it says counts.
        shown = self._run("apt-cache", "show", "--no-all-versions", "--", *names).stdout
        found: dict[str, Record] = {}
        for record in _records(shown):
            found.setdefault(record["Package"], record)
        return found

    def versions(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return every version apt could download now, the preferred one first, by package."""
        shown = self._run("apt-cache", "show", "--", *names).stdout
        preferred = self.records(names)
        found = {name: [record["Version"]] for name, record in preferred.items()}
        for record in _records(shown):
            found.setdefault(record["Package"], []).append(record.get("Version", ""))
        return {name: tuple(dict.fromkeys(versions)) for name, versions in found.items()}

    def download(self, packages: Iterable[Package], directory: Path) -> None:
        """Leave packages in a directory; raise `GateUnavailable` if one does not come."""
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
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise _not_downloaded("nothing comes any more") from exc
        except OSError as exc:
            raise _no_apt(program) from exc


def _records(shown: bytes) -> Iterator[Record]:
    for block in shown[:_MAX_ANSWER_BYTES].decode("utf-8", "replace").split("\n\n"):
        record = dict(_FIELD.findall(block))
        if "Package" in record:
            yield record


def _why(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    told = [line for line in lines if line.startswith("E:")] or lines or ["no reason given"]
    return quote(told[0][:_SHOWN_CHARS])


def _no_apt(program: str) -> GateUnavailable:
    hint = "build on Debian 12, and bring it here with `threegate image export` and `import`"
    return GateUnavailable(
        f"there is no {program} here to get packages with", code=NO_APT, hint=hint
    )


def _not_downloaded(why: str) -> GateUnavailable:
    hint = "run the same command again, what came is kept; `apt-get update` renews apt's lists"
    return GateUnavailable(f"packages did not come: {why}", code=NOT_DOWNLOADED, hint=hint)
