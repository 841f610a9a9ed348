"""The journal under failing disks, full quotas and power loss."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import samples
from tests.support.workspaces import NOW, audited, clock, files_of, findings, make_store
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex
from threegate.base.errors import AuditUnavailable, QuotaExceeded, StorageFailed
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.admission import admit
from threegate.handoff.journal import Put
from threegate.handoff.records import Quota, scan_usage
from threegate.handoff.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    make_store(tmp_path / "store")
    opened = Store.open(tmp_path / "store", clock=clock)
    yield opened
    opened.close()


def blob(data: bytes) -> Put:
    return Put(states.BLOBS, sha256_hex(data), data)


def put(store: Store, *blobs: bytes) -> None:
    with store.locked() as journal:
        journal.run("blob", [blob(data) for data in blobs])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("call", ["write", "fsync", "rename", "fchmod"])
def test_failing_disk_changes_nothing_and_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    put(store, b"before")  # control: it works while the disk does
    before = files_of(store.root)
    real: Callable[..., Any] = getattr(os, call)
    log_fds = {fd for fd in range(256) if _is_log(fd)}
    failures = 0

    def failing(*args: Any, **kwargs: Any) -> Any:
        nonlocal failures
        if failures == 0 and args[0] not in log_fds:
            failures += 1
            raise OSError(number, os.strerror(number))
        return real(*args, **kwargs)

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(StorageFailed) as refused:
        put(store, b"one", b"two")
    assert refused.value.exit_code == 74
    assert errno.errorcode[number] in refused.value.message
    monkeypatch.undo()
    # Undone, or completed because every byte had arrived: never half.
    both = {f"{states.BLOBS}/{sha256_hex(d)} {sha256_hex(d)}" for d in (b"one", b"two")}
    assert files_of(store.root) in (before, before | both)
    assert findings(store.root) == []
    put(store, b"after")


def _is_log(fd: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}").endswith(".jsonl")
    except OSError:
        return False


# claim TG-C-23
def test_unwritable_log_stops_everything(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files_of(store.root)

    def failing(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "write", failing)
    with pytest.raises(AuditUnavailable) as refused:
        put(store, b"never")
    assert refused.value.exit_code == 74
    monkeypatch.undo()
    assert files_of(store.root) == before
    put(store, b"never")  # control: it was the log
    assert files_of(store.root) != before


def test_quota_refuses_before_anything_is_announced(store: Store) -> None:
    store.journal.quotas = {states.BLOBS: Quota(files=2, bytes=100)}
    put(store, b"one", b"two")
    entries = store.journal.log.size
    with pytest.raises(QuotaExceeded, match="would hold 3 files") as refused:
        put(store, b"three")
    assert refused.value.exit_code == 74
    store.journal.quotas = {states.BLOBS: Quota(files=9, bytes=100)}
    with pytest.raises(QuotaExceeded):
        put(store, b"x" * 95)
    assert store.journal.log.size == entries
    put(store, b"x" * 94)  # control: exactly the quota fits


def test_totals_in_the_log_are_those_on_disk(store: Store) -> None:
    data = registry.emit(samples.packet())
    list(admit(store, [Untrusted(data), Untrusted(b"junk")], now=lambda: NOW))
    put(store, b"one")
    assert store.journal.usage == scan_usage(store.directories)
    assert store.journal.usage.of("handoff/packets/accepted") == (1, len(data))
    root = store.root
    again = Store.open(root, clock=clock)
    with again.locked():
        assert again.journal.usage == store.journal.usage
    again.close()


def test_interrupted_change_is_recorded_as_recovered(store: Store) -> None:
    def die(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    put(store, b"before")
    real = store.journal._apply
    store.journal._apply = die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        put(store, b"one", b"two")
    store.journal._apply = real  # type: ignore[method-assign]
    put(store, b"three")
    kinds = [entry.kind for entry in store.journal.log.entries(0)]
    assert kinds.count("recovered") == 1
    assert f"{states.BLOBS}/{sha256_hex(b'one')}" in "".join(audited(store.root))
