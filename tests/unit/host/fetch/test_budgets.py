"""Budgets: what is spent stays spent, whatever clock, crash or damaged file says."""

import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.crash import deaths
from tests.support.workspaces import START, Clock
from threegate.audit.entry import time_of
from threegate.base.errors import PolicyDenied, StorageFailed, UsageError
from threegate.host.fetch.budgets import Budgets, RateSpent

HOST = "api.crossref.org"
NOON = START - START % 86_400 + 43_200
LIMITS = {"rate_per_minute": 10, "bytes_per_day": 1000}


def ask(
    budgets: Budgets, *, host: str = HOST, requests: int = 1, size: int = 0
) -> tuple[str, str] | None:
    """Return code and hint of a denial, None if it was granted."""
    try:
        budgets.spend(host, requests=requests, bytes=size, **LIMITS)
    except PolicyDenied as exc:
        assert exc.exit_code == 77
        return exc.code, exc.hint
    return None


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
def budgets(tmp_path: Path, clock: Clock) -> Budgets:
    return Budgets(tmp_path / "state" / "budgets", clock)


def test_rate_is_a_window_that_slides(budgets: Budgets, clock: Clock) -> None:
    for second in range(10):
        clock.now = NOON + second
        assert ask(budgets) is None
    assert ask(budgets) == ("TG-BUD-001", "try again in 51 seconds")
    clock.now = NOON + 59
    assert ask(budgets) == ("TG-BUD-001", "try again in 1 seconds")
    clock.now = NOON + 60
    assert ask(budgets) is None, "the first of the ten is a minute old"
    assert ask(budgets) is not None, "and only the first"


def test_the_hint_is_true_for_several_at_once(budgets: Budgets, clock: Clock) -> None:
    for second, count in ((0, 4), (5, 4)):
        clock.now = NOON + second
        assert ask(budgets, requests=count) is None
    denied = ask(budgets, requests=7)
    assert denied is not None
    wait = int(re.findall("[0-9]+", denied[1])[0])
    clock.now += wait - 1
    assert ask(budgets, requests=7) is not None
    clock.now += 1
    assert ask(budgets, requests=7) is None


def test_more_than_the_rate_is_never_granted(budgets: Budgets) -> None:
    assert ask(budgets, requests=10) is None, "control: exactly the rate is"
    denied = ask(budgets, requests=11)
    assert denied is not None
    assert "ask for less" in denied[1]


def test_bytes_are_by_the_utc_day(budgets: Budgets, clock: Clock) -> None:
    assert ask(budgets, size=1000) is None
    code, hint = ask(budgets, size=1) or ("", "")
    assert code == "TG-BUD-002"
    assert "after 2026-11-16T00:00:00Z" in hint
    clock.now = NOON + 43_199
    assert ask(budgets, size=1) is not None
    clock.now = NOON + 43_200
    assert ask(budgets, size=1000) is None


def test_both_or_neither(budgets: Budgets) -> None:
    assert ask(budgets, requests=10, size=1001) is not None
    assert ask(budgets, requests=10, size=1000) is None, "the refused one spent no requests"
    assert ask(budgets, requests=1, size=0) is not None


def test_hosts_do_not_share(budgets: Budgets) -> None:
    assert ask(budgets, requests=10, size=1000) is None
    assert ask(budgets, host="export.arxiv.org", requests=10, size=1000) is None


def test_workspaces_and_processes_of_a_user_share(tmp_path: Path, clock: Clock) -> None:
    first, second = (Budgets(tmp_path / "budgets", clock) for _ in range(2))
    assert ask(first, requests=10) is None
    assert ask(second) is not None


@pytest.mark.parametrize("back", [1, 59, 61, 86_400, 10**9])
def test_clock_that_goes_back_refills_nothing(budgets: Budgets, clock: Clock, back: int) -> None:
    assert ask(budgets, requests=10, size=1000) is None
    clock.now -= back
    assert ask(budgets) is not None
    assert ask(budgets, requests=0, size=1) is not None
    clock.now += back + 59
    assert ask(budgets) is not None
    clock.now += 1
    assert ask(budgets) is None


# claim TG-C-37
def test_a_trip_to_the_future_and_back_refills_nothing(budgets: Budgets, clock: Clock) -> None:
    assert ask(budgets, requests=10, size=1000) is None
    clock.now += 86_400
    assert ask(budgets, requests=10, size=1000) is None, "tomorrow's own budget"
    clock.now -= 86_400
    denied = ask(budgets, requests=1)
    assert denied == ("TG-BUD-001", f"try again in {86_400 + 60} seconds")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"", b""),
        (b"", b"null"),
        (b"", b"[" * 16_000),
        (b"", b" " * 20_000),
        (b"]]", b"]"),
        (b"]]", b"],[1,1]]"),
        (b"budget/1", b"budget/2"),
        (b'"bytes":7', b'"bytes":-7'),
        (b'"bytes":7', b'"bytes":0.5'),
        (b'"bytes":7', b'"bytes":true'),
        (HOST.encode(), b"export.arxiv.org"),
    ],
)
def test_damaged_file_denies(tmp_path: Path, clock: Clock, old: bytes, new: bytes) -> None:
    budgets = Budgets(tmp_path, clock)
    assert ask(budgets, size=7) is None
    path = tmp_path / f"{HOST}.json"
    assert old in path.read_bytes(), "control: there is something to damage"
    path.write_bytes(path.read_bytes().replace(old, new) if old else new)
    code, hint = ask(budgets) or ("", "")
    assert code == "TG-BUD-003"
    assert str(path) in hint
    assert ask(budgets, host="export.arxiv.org") is None, "control: the other is not damaged"
    path.unlink()
    assert ask(budgets) is None, "the hint is true"


@pytest.mark.parametrize("kind", ["link", "fifo", "hard link", "directory", "mode"])
def test_file_that_is_not_plain_denies(tmp_path: Path, clock: Clock, kind: str) -> None:
    budgets = Budgets(tmp_path / "budgets", clock)
    assert ask(budgets) is None
    path = tmp_path / "budgets" / f"{HOST}.json"
    kept = tmp_path / "kept"
    if kind == "mode":
        path.chmod(0o666)
    elif kind == "hard link":
        os.link(path, kept)
    else:
        path.rename(kept)
        if kind == "link":
            path.symlink_to(kept)
        elif kind == "fifo":
            os.mkfifo(path)
        else:
            path.mkdir()
    assert (ask(budgets) or ("", ""))[0] == "TG-BUD-003"


def test_directory_others_can_write_denies(tmp_path: Path, clock: Clock) -> None:
    budgets = Budgets(tmp_path / "budgets", clock)
    assert ask(budgets) is None
    (tmp_path / "budgets").chmod(0o777)
    assert (ask(budgets) or ("", ""))[0] == "TG-BUD-003"


@pytest.mark.parametrize(
    "host", ["", ".", "..", "../x", "a/b", "A.example", "a\n", "a\0b", "-a.example", "a" * 254]
)
def test_host_is_a_name_and_no_path(tmp_path: Path, clock: Clock, host: str) -> None:
    with pytest.raises(UsageError):
        Budgets(tmp_path, clock).spend(host, requests=1, **LIMITS)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("requests", "size"), [(-1, 0), (0, -1), (2**60, 0), (0, 2**60)])
def test_nobody_earns_by_spending(tmp_path: Path, clock: Clock, requests: int, size: int) -> None:
    with pytest.raises(UsageError):
        Budgets(tmp_path, clock).spend(HOST, requests=requests, bytes=size, **LIMITS)


# claim TG-C-37
def test_processes_together_never_exceed_it(tmp_path: Path, clock: Clock) -> None:
    budgets = Budgets(tmp_path / "budgets", clock)
    pids = []
    for _ in range(6):
        pid = os.fork()
        if pid == 0:
            granted = sum(ask(budgets, size=30) is None for _ in range(5))
            os._exit(granted)
        pids.append(pid)
    granted = sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)
    assert granted == 10, "thirty asked, ten are in the budget"


def test_kill_at_any_call_spends_once_or_not_at_all(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "budgets"
    count = 0

    def prepare() -> None:
        shutil.rmtree(path, ignore_errors=True)
        assert ask(Budgets(path, clock), requests=5) is None

    def action() -> None:
        Budgets(path, clock).spend(HOST, requests=3, **LIMITS)

    for death in deaths(action, prepare):
        count += 1
        after = Budgets(path, clock)
        left = sum(ask(after) is None for _ in range(10))
        assert left in (5, 2), death
    assert count > 8


@given(
    steps=st.lists(
        st.tuples(st.integers(-200, 200), st.integers(0, 12), st.integers(0, 600)), max_size=30
    )
)
def test_never_more_than_the_budget_in_any_minute_or_day(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, int]]
) -> None:
    clock = Clock(NOON)
    budgets = Budgets(tmp_path_factory.mktemp("budgets"), clock)
    latest, granted = 0, []
    for move, requests, size in steps:
        clock.now += move
        if ask(budgets, requests=requests, size=size) is None:
            latest = max(latest, clock.now)  # the latest time the file knows of
            granted.append((latest, requests, size))
    for start, _, _ in granted:
        window = [item for item in granted if start <= item[0] < start + 60]
        assert sum(requests for _, requests, _ in window) <= 10
        day = [item for item in granted if item[0] // 86_400 == start // 86_400]
        assert sum(size for _, _, size in day) <= 1000


def test_what_arrived_counts_whatever_was_left(budgets: Budgets, clock: Clock) -> None:
    before = budgets.left(HOST, **LIMITS)
    assert (before.requests, before.bytes) == (10, 1000)
    budgets.charge(HOST, 1500)
    assert budgets.left(HOST, **LIMITS).bytes == 0
    assert ask(budgets, size=1) == ("TG-BUD-002", denied_until(clock))
    assert ask(budgets) is None, "control: requests are counted apart"
    assert budgets.left(HOST, **LIMITS).requests == 9


def test_a_rate_that_is_spent_says_how_long(budgets: Budgets, clock: Clock) -> None:
    for _ in range(10):
        assert ask(budgets) is None
    clock.now += 20
    with pytest.raises(RateSpent) as spent:
        budgets.spend(HOST, requests=1, **LIMITS)
    assert spent.value.wait_seconds == 40
    with pytest.raises(RateSpent) as never:
        budgets.spend(HOST, requests=11, **LIMITS)
    assert never.value.wait_seconds is None, "no waiting helps"


def denied_until(clock: Clock) -> str:
    tomorrow = time_of((clock.now // 86_400 + 1) * 86_400)
    return f"try again after {tomorrow}, or raise the budget in fetch.policy.md"


def test_a_place_that_cannot_be_had_is_named_before_anything_is_asked(
    tmp_path: Path, clock: Clock
) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageFailed, match="file/budgets: not a directory") as refused:
        Budgets(tmp_path / "file" / "budgets", clock).open()
    assert "XDG_STATE_HOME" in refused.value.hint
    Budgets(tmp_path / "state" / "budgets", clock).open()


def test_after_the_clock_was_set_what_was_spent_in_the_future_counts_as_spent_now(
    budgets: Budgets, clock: Clock
) -> None:
    clock.now = NOON + 20 * 86_400
    assert ask(budgets, requests=10, size=900) is None
    assert ask(budgets, host="other.org", requests=3) is None
    clock.now = NOON
    wait = 20 * 86_400 + 60
    assert ask(budgets) == ("TG-BUD-001", f"try again in {wait} seconds"), "control"
    budgets.set_clock()
    assert ask(budgets) == ("TG-BUD-001", "try again in 60 seconds"), "nothing is given back"
    clock.now += 60
    assert ask(budgets, size=101) is not None, "of this day neither"
    assert ask(budgets, size=100) is None
