"""Claim: whatever is changed in log or handoff behind the host's back is found."""

import os
import random
import shutil
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support import samples
from tests.support.workspaces import NOW, clock, make_store
from threegate.artifacts import registry
from threegate.audit.checkpoint import Checkpoint
from threegate.audit.log import AuditLog
from threegate.audit.verify import verify_log
from threegate.base.errors import HandoffTampered
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.admission import admit
from threegate.handoff.disk import Directories
from threegate.handoff.store import AUDIT, Store
from threegate.handoff.verify import FileFold, verify_files

# Which edit is made follows from its number.
EDITS = (range(300), pytest.param(range(300, 2000), marks=pytest.mark.slow))
PACKETS = "handoff/packets/accepted"
Edit = Callable[[random.Random, Path], str]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tamper") / "template"
    make_store(root)
    store = Store.open(root, clock=clock)
    items = [registry.emit(samples.packet_of_size(n, 2200)) for n in range(6)]
    items += [registry.emit(samples.tool_request(inputs=())), b"refused"]
    list(admit(store, map(Untrusted, items), now=lambda: NOW))
    store.close()
    return root


def problems(root: Path, checkpoints: Sequence[Checkpoint] = ()) -> list[str]:
    """Return what a full verification says, the log's problem first."""
    fold = FileFold()
    report = verify_log(root / AUDIT, visit=fold.feed, checkpoints=checkpoints)
    if report.problem is not None:
        return [str(report.problem)]
    try:
        directories = Directories.open(root)
    except HandoffTampered as exc:
        return [exc.message]
    try:
        return [f"{f.name} {f.problem}" for f in verify_files(directories, fold) if not f.stray]
    finally:
        directories.close()


def _any_file(rng: random.Random, root: Path) -> Path:
    files = [
        root / directory / name
        for directory in states.NAMES
        for name in os.listdir(root / directory)
    ]
    return rng.choice(sorted(files))


def flip_byte(rng: random.Random, root: Path) -> str:
    path = _any_file(rng, root)
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    _rewrite(path, bytes(data))
    return f"flip byte {at} of {path.name}"


def cut_file(rng: random.Random, root: Path) -> str:
    path = _any_file(rng, root)
    data = path.read_bytes()
    _rewrite(path, data[: rng.randrange(len(data))])
    return f"cut {path.name}"


def delete_file(rng: random.Random, root: Path) -> str:
    path = _any_file(rng, root)
    path.unlink()
    return f"delete {path.name}"


def move_file(rng: random.Random, root: Path) -> str:
    path = _any_file(rng, root)
    target = root / rng.choice([d for d in states.NAMES if root / d != path.parent])
    path.rename(target / path.name)
    if not states.NAMES[str(target.relative_to(root))].match(path.name):
        return f"move {path.name} to where it is a stray; it is missing at home"
    return f"move {path.name} to {target.name}"


def insert_file(rng: random.Random, root: Path) -> str:
    data = registry.emit(samples.packet(f"forged {rng.random()}"))
    name = registry.id_of(registry.parse(Untrusted(data))) + ".md"
    _rewrite(root / PACKETS / name, data)
    return f"insert {name}"


def make_writable(rng: random.Random, root: Path) -> str:
    path = _any_file(rng, root)
    path.chmod(rng.choice([0o644, 0o600, 0o4444, 0o666]))
    return f"chmod {path.name}"


def link_twice(rng: random.Random, root: Path) -> str:
    path = _any_file(rng, root)
    os.link(path, root / f"second-name-{rng.random()}")
    return f"hard link of {path.name}"


def replace_by_symlink(rng: random.Random, root: Path) -> str:
    path = _any_file(rng, root)
    copy = root / "elsewhere"
    shutil.copy(path, copy)
    path.unlink()
    path.symlink_to(copy)
    return f"symlink instead of {path.name}"


def edit_log(rng: random.Random, root: Path) -> str:
    path = root / AUDIT / "segment-00000000.jsonl"
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(7)
    path.write_bytes(bytes(data))
    return f"flip byte {at} of the log"


def drop_log_line(rng: random.Random, root: Path) -> str:
    path = root / AUDIT / "segment-00000000.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    at = rng.randrange(len(lines))
    path.write_bytes(b"".join(lines[:at] + lines[at + 1 :]))
    return f"drop line {at} of {len(lines)}"


def swap_log_lines(rng: random.Random, root: Path) -> str:
    path = root / AUDIT / "segment-00000000.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    a, b = rng.sample(range(len(lines)), 2)
    lines[a], lines[b] = lines[b], lines[a]
    path.write_bytes(b"".join(lines))
    return f"swap lines {a} and {b}"


def _rewrite(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    path.chmod(0o444)


EDITORS: tuple[Edit, ...] = (
    flip_byte,
    cut_file,
    delete_file,
    move_file,
    insert_file,
    make_writable,
    link_twice,
    replace_by_symlink,
    edit_log,
    drop_log_line,
    swap_log_lines,
)


@pytest.mark.parametrize("edits", EDITS, ids=["first", "others"])
# claim TG-C-21
def test_random_edits_of_log_and_handoff_are_all_detected(
    template: Path, tmp_path: Path, edits: range
) -> None:
    work = tmp_path / "work"
    with AuditLog.open(template / AUDIT, clock=clock) as log:
        kept_elsewhere = [log.checkpoint()]
    assert problems(template, kept_elsewhere) == [], "control: an untouched workspace verifies"
    for number in edits:
        rng = random.Random(number)
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(template, work)
        what = rng.choice(EDITORS)(rng, work)
        assert problems(work, kept_elsewhere), f"edit {number} was not detected: {what}"


def test_without_a_checkpoint_edits_to_the_log_never_crash_the_verifier(
    template: Path, tmp_path: Path
) -> None:
    # The very last line is protected by nothing but a checkpoint; it must still be read strictly.
    work = tmp_path / "work"
    found = 0
    for number in range(300):
        rng = random.Random(number)
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(template, work)
        path = work / AUDIT / "segment-00000000.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        last = bytearray(lines[-1])
        last[rng.randrange(len(last) - 1)] ^= 1 << rng.randrange(7)
        path.write_bytes(b"".join(lines[:-1]) + bytes(last))
        found += bool(problems(work))
    assert found > 200


def test_stray_files_are_reported_but_not_called_tampering(template: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    shutil.copytree(template, work)
    (work / PACKETS / ".DS_Store").write_bytes(b"x")
    (work / PACKETS / "notes.txt~").write_bytes(b"x")
    assert problems(work) == []
    fold = FileFold()
    verify_log(work / AUDIT, visit=fold.feed)
    directories = Directories.open(work)
    strays = [f.name for f in verify_files(directories, fold) if f.stray]
    directories.close()
    assert strays == [".DS_Store", "notes.txt~"]


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the path is longer than a socket address may be
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(path.name[:90])
        Path(path.name[:90]).rename(path.name)
    finally:
        os.chdir(here)


def _directory(path: Path) -> None:
    path.mkdir()


def _symlink(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def _hard_link(path: Path) -> None:
    data = path.with_name("other")
    data.write_bytes(b"x")
    data.chmod(0o444)
    os.link(data, path)


def _too_open(path: Path) -> None:
    path.write_bytes(b"x")
    path.chmod(0o644)


def _wrong_digest(path: Path) -> None:
    path.write_bytes(b"x")
    path.chmod(0o444)


def _too_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**30)
    path.chmod(0o444)


@pytest.mark.parametrize(
    ("plant", "code"),
    [
        (_fifo, "TG-HND-002"),
        (_socket, "TG-HND-002"),
        (_directory, "TG-HND-002"),
        (_symlink, "TG-HND-002"),
        (_hard_link, "TG-HND-003"),
        (_too_open, "TG-HND-005"),
        (_too_large, "TG-HND-006"),
        (_wrong_digest, "TG-HND-008"),
    ],
)
# claim TG-C-21
def test_strange_file_in_handoff_is_refused_as_tampering(
    plant: Callable[[Path], None], code: str, template: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    shutil.copytree(template, work)
    store = Store.open(work, clock=clock)
    real = next(store.ids("rp"))
    assert registry.id_of(store.read(real)) == real, "control: the real artifact reads"
    planted = "rp-" + "0" * 64
    plant(work / PACKETS / f"{planted}.md")
    with pytest.raises(HandoffTampered) as refused:
        store.read(planted)
    assert refused.value.code == code
    store.close()


# claim TG-C-21
def test_file_of_another_owner_is_refused(template: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.fail("needs root: chown to another uid")
    work = tmp_path / "work"
    shutil.copytree(template, work)
    store = Store.open(work, clock=clock)
    artifact_id = next(store.ids("rp"))
    assert registry.id_of(store.read(artifact_id)) == artifact_id, (
        "control: it reads while it is ours"
    )
    os.chown(work / PACKETS / f"{artifact_id}.md", 4242, 4242)
    with pytest.raises(HandoffTampered) as refused:
        store.read(artifact_id)
    assert refused.value.code == "TG-HND-004"
    store.close()


def test_file_changed_while_it_is_read_is_refused(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    shutil.copytree(template, work)
    store = Store.open(work, clock=clock)
    artifact_id = next(store.ids("rp"))
    assert registry.id_of(store.read(artifact_id)) == artifact_id, (
        "control: it reads while nobody writes"
    )
    path = work / PACKETS / f"{artifact_id}.md"
    real_read = os.read

    def racing_read(fd: int, count: int) -> bytes:
        data = real_read(fd, count)
        path.chmod(0o644)
        with path.open("r+b") as file:
            file.write(b"?")
        path.chmod(0o444)
        return data

    monkeypatch.setattr(os, "read", racing_read)
    with pytest.raises(HandoffTampered) as refused:
        store.read(artifact_id)
    assert refused.value.code == "TG-HND-007"
    store.close()


# claim TG-C-21
def test_symlinked_state_directory_is_refused(template: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    shutil.copytree(template, work)
    Store.open(work, clock=clock).close()  # control
    (work / PACKETS).rename(tmp_path / "moved")
    (work / PACKETS).symlink_to(tmp_path / "moved")
    with pytest.raises(HandoffTampered) as refused:
        Store.open(work, clock=clock)
    assert "not a plain directory" in refused.value.message
