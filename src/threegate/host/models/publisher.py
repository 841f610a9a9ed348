"""The publisher's address as a source of a model, through a proxy with its own list of hosts.

    with Publisher(bundle, machine, places, writer) as publisher:
        publisher.bring(file, path, progress)  # continues the file at `path`

A sandbox of FETCH asks for one part after the other; its proxy serves the list `downloads.models`
of fetch.policy.md and nothing else, and every redirect is judged by the same list.

SECURITY
    Writes bytes of strangers to one file of the cache without reading them: the caller checks the
    digest of the whole.  A publisher cannot make the file longer than the pinned one.
"""

import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from threegate.base.errors import GateUnavailable, ThreeGateError, disk_errors
from threegate.base.text import visible
from threegate.gates.fetch.retrieve.messages import PART, FetchQuestion, Got, NotGot
from threegate.host.fetch.network import Places
from threegate.host.fetch.retrieve_pool import RetrieveBox, RetrieveSettings, open_retrieve
from threegate.host.models.catalogue import ModelFile
from threegate.host.models.store import Progress
from threegate.host.proxy.machine import anchors, certificates
from threegate.host.proxy.supervisor import LogWriter, Proxy, listening
from threegate.policy.bundle import Bundle
from threegate.policy.purposes import downloads
from threegate.policy.sections.fetch import OWN_PROXY
from threegate.sandbox.machine import Machine

LIST: Final = "models"  # of `downloads` in fetch.policy.md
ASKED: Final = "model.pull"
ENDED: Final = "model.pulled"
PART_BYTES: Final = 16 * 1024 * 1024
MAX_TRIES: Final = 3  # in a row, without progress
_FOR_GOOD: Final = ("denied", "not-found", "too-large", "unreadable")  # not tried again
NO_WAY: Final = "TG-MDL-045"
NOT_SERVED: Final = "TG-MDL-046"


class Publisher:
    """Publishers' addresses; proxy and sandbox start with the first file."""

    def __init__(
        self,
        bundle: Bundle,
        machine: Machine,
        places: Places,
        writer: LogWriter,
        *,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._bundle, self._machine, self._places = bundle, machine, places
        self._writer, self._part_bytes = writer, part_bytes
        self._stack = ExitStack()
        self._given: RetrieveSettings | None = None
        self._box: RetrieveBox | None = None
        self._failed: GateUnavailable | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End sandbox and proxy, if there are any."""
        self._drop_box()
        self._stack.close()
        self._given = None

    def bring(self, file: ModelFile, path: Path, progress: Progress) -> None:
        """Download the missing rest of a file at `path`; raise `GateUnavailable` and keep the part.

        A publisher that failed is not asked again: other files would wait for it too.
        """
        if self._failed is not None:
            raise self._failed
        assert file.url is not None
        try:
            self._bring(file, path, progress)
        except GateUnavailable as exc:
            self._failed = exc
            raise

    def _bring(self, file: ModelFile, path: Path, progress: Progress) -> None:
        path_of_rules = ("fetch", "downloads", LIST)
        if not self._bundle.has(*path_of_rules) or self._bundle.text("fetch", "proxy") != OWN_PROXY:
            detail = "no list of downloads, or a proxy that serves packets only"
            raise _no_way(f"the policy does not allow downloads from publishers: {detail}")
        if file.bytes > self._bundle.integer(*path_of_rules, "response_bytes"):
            rule = self._bundle.ref(*path_of_rules, "response_bytes")
            raise _no_way(f"the file is larger than {rule} allows")
        end = time.monotonic() + self._bundle.integer(*path_of_rules, "deadline_seconds")
        self._open()
        with disk_errors("write a model"), path.open("ab") as out:
            if out.tell() > file.bytes:
                out.seek(0)  # truncating alone leaves `tell` beyond the end
                out.truncate()
            begun = out.tell()
            progress(begun)
            about = {"sha256": file.sha256, "url": file.url}
            # Durable before the question: a crash must not hide that a host was contacted.
            self._writer.announce(ASKED, {**about, "bytes": file.bytes, "from": begun})
            try:
                hosts = self._parts(file, out, progress, end)
            except ThreeGateError as exc:
                progress(-out.tell())
                why = {"code": exc.code, "why": visible(exc.message)}
                self._writer.note(ENDED, {**about, "bytes": out.tell(), **why})
                raise
            self._writer.note(ENDED, {**about, "bytes": out.tell(), "hosts": hosts})

    def _parts(self, file: ModelFile, out: BinaryIO, progress: Progress, end: float) -> list[str]:
        """Write all parts in order; return the hosts that were involved."""
        hosts: dict[str, None] = {}
        tries = 0
        while out.tell() < file.bytes:
            if time.monotonic() > end:
                raise _not_served("it took longer than the policy allows for one file")
            answer = self._ask(file, out.tell())
            if isinstance(answer, NotGot):
                tries += 1
                if tries >= MAX_TRIES or answer.reason in _FOR_GOOD:
                    raise _not_served(answer.message)
                continue
            tries = 0
            # A server that ignores the range would corrupt the file.
            _refuse_other(file, answer, out.tell(), self._part_bytes)
            out.write(answer.body)
            out.flush()
            progress(len(answer.body))
            way = [*(url for url, _ in answer.hops), answer.url]
            hosts |= dict.fromkeys(url.split("/")[2] for url in way)
        return list(hosts)

    def _ask(self, file: ModelFile, first_byte: int) -> Got | NotGot:
        assert self._given is not None
        assert file.url is not None
        if self._box is None or not self._box.alive:
            self._drop_box()
            self._box = open_retrieve(self._machine, self._given)
        size = min(self._part_bytes, file.bytes - first_byte)
        return self._box.ask(FetchQuestion(file.url, "*/*", size, first_byte=first_byte))

    def _drop_box(self) -> None:
        if self._box is not None:
            self._box.close()
            self._box = None

    def _open(self) -> None:
        """Start the proxy, once."""
        if self._given is not None:
            return
        purpose = downloads(LIST)
        place = self._stack.enter_context(listening(self._places.runtime, purpose="download"))
        proxy = Proxy(
            self._machine,
            place,
            decided=self._writer.decided,
            gone=lambda _: None,  # questions through it then fail
            purpose=purpose,
        )
        self._stack.callback(proxy.close)
        proxy.start(self._bundle)
        files = anchors(self._places.root, self._bundle)
        self._given = RetrieveSettings(self._bundle, files, place.path, certificates(), purpose)


def _refuse_other(file: ModelFile, got: Got, first_byte: int, most: int) -> None:
    """Raise `GateUnavailable` unless this is the next part of a file of the pinned length."""
    total = got.total if got.status == PART else len(got.body)
    wanted = min(most, file.bytes - first_byte)
    if total != file.bytes or len(got.body) != wanted:
        raise _not_served("its file has another length")


def _no_way(detail: str) -> GateUnavailable:
    return GateUnavailable(detail, code=NO_WAY, hint="use the packages, or name a file with --from")


def _not_served(why: str) -> GateUnavailable:
    hint = "run the same command again, downloaded parts are kept; or name a file with --from"
    return GateUnavailable(f"the publisher did not serve it: {why}", code=NOT_SERVED, hint=hint)
