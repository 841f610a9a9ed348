"""The marker and what opening a workspace refuses."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.workspaces import START, Clock, make_workspace
from threegate.audit.entry import time_of
from threegate.base.errors import (
    ClockRefused,
    HandoffTampered,
    ThreeGateError,
    VersionUnsupported,
    WorkspaceUnusable,
)
from threegate.host.workspace.workspace import (
    MARKER,
    Marker,
    emit_marker,
    make_marker,
    open_workspace,
    parse_marker,
    read_marker,
    write_marker,
)

GOOD = make_marker(created=time_of(START))


def test_marker_round_trip() -> None:
    assert parse_marker(emit_marker(GOOD)) == GOOD


@given(st.binary(max_size=200))
def test_any_bytes_are_a_marker_or_a_value_error(data: bytes) -> None:
    try:
        assert emit_marker(parse_marker(data)) == data
    except (ValueError, VersionUnsupported):
        return


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]\n",
        b"{}\n",
        emit_marker(GOOD) + b"\n",
        emit_marker(GOOD)[:-1],
        emit_marker(GOOD).replace(b"ws/1", b"ws/01"),
        emit_marker(GOOD).replace(b"ws/1", b"\x1b[2Jws/1"),
        emit_marker(GOOD).replace(GOOD.id.encode(), b"../../etc"),
        emit_marker(GOOD).replace(GOOD.created.encode(), b"yesterday"),
        emit_marker(GOOD).replace(b'{"', b'{"also":1,"'),
    ],
)
def test_marker_has_one_spelling(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse_marker(data)


def test_workspace_newer_than_this_program_is_refused(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path)
    assert read_marker(ws.root) == ws.marker, "control: its own version opens"
    write_marker(ws.root, Marker(ws.marker.id, ws.marker.created, 2))
    with pytest.raises(VersionUnsupported) as caught:
        open_workspace(ws.root)
    assert (caught.value.code, caught.value.exit_code) == ("TG-VER-001", 78)
    assert caught.value.hint


def test_marker_of_another_workspace_is_tampering(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path)
    open_workspace(ws.root).close()
    write_marker(ws.root, Marker(GOOD.id, ws.marker.created, 1))
    with pytest.raises(HandoffTampered, match="different workspaces"):
        open_workspace(ws.root)


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "missing"])
def test_marker_that_is_no_plain_file_is_refused(tmp_path: Path, kind: str) -> None:
    ws = make_workspace(tmp_path)
    marker = ws.root / MARKER
    kept = marker.rename(tmp_path / "kept")
    if kind == "link":
        marker.symlink_to(kept)
    elif kind == "fifo":
        os.mkfifo(marker)
    elif kind == "directory":
        marker.mkdir()
    with pytest.raises(ThreeGateError) as caught:
        open_workspace(ws.root)
    assert caught.value.exit_code in (69, 74, 76)


def test_workspace_of_another_user_is_refused_to_root_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = make_workspace(tmp_path)
    open_workspace(ws.root).close()
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(WorkspaceUnusable, match=f"belongs to uid {owner}"):
        open_workspace(ws.root)


def test_clock_far_behind_the_log_is_refused(tmp_path: Path) -> None:
    clock = Clock()
    ws = make_workspace(tmp_path, clock=clock)
    clock.now = START - 300
    ws.refuse_wrong_clock()  # control: five minutes are tolerated
    clock.now = START - 301
    with pytest.raises(ClockRefused) as caught:
        ws.refuse_wrong_clock()
    assert caught.value.code == "TG-CLK-001"
