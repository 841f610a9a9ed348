"""Foreign text on its way to the operator's terminal: spelled out, everywhere."""

from pathlib import Path

import pytest

from tests.support.cli import Cli, made, write
from tests.support.samples import box, packet
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex

# Clear the screen; write to the clipboard; C1 control; override of the writing direction.
CLEAR, CLIPBOARD, C1, BIDI = (
    b"\x1b[2J",
    b"\x1b]52;c;ZXZpbA==\x07",
    "\x9b31m".encode(),
    "\u202e".encode(),
)
HOSTILE = CLEAR + CLIPBOARD + C1 + BIDI
JOINER = "\u200d"  # orthography in some scripts, so a title may hold it


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    return made(tmp_path_factory.mktemp("hostile"))


def assert_inert(shown: bytes) -> None:
    text = shown.decode("utf-8")
    raw = [c for c in text if not (c.isprintable() or c in "\r\n")]
    assert raw == [], f"{raw!r} reached the terminal"


def hostile_file(cli: Cli) -> Path:
    """Return a packet with a hostile title, in a file with a hostile name."""
    data = registry.emit(packet()).replace(b"On the toughness", b"On" + HOSTILE)
    name = b"packet " + HOSTILE.replace(b"/", b"") + b"\n.md"
    path = write(cli.base / name.decode("utf-8"), data)
    assert HOSTILE in path.read_bytes(), "control: the bytes are hostile"
    assert CLIPBOARD in str(path).encode(), "control: the name is hostile"
    return path


# claim TG-C-16
def test_a_hostile_title_in_a_file_with_a_hostile_name(cli: Cli) -> None:
    path = hostile_file(cli)
    digest = sha256_hex(path.read_bytes())
    for argv, code in (
        (("validate", path), 65),
        (("admit", path), 65),
        (("quarantine", "list"), 0),
        (("quarantine", "show", digest), 0),
    ):
        done = cli(*argv, code=code)
        assert_inert(done.raw_out + done.raw_err)
        assert_inert(cli.in_terminal(*argv, code=code))
        assert_inert(cli(*argv, "--json", code=code).raw_out)
    shown = cli("quarantine", "show", digest).out
    assert "On\\u{1b}[2J\\u{1b}]52;c;ZXZpbA==\\u{7}\\u{9b}31m\\u{202e}" in shown
    assert cli("quarantine", "show", "--raw", digest).raw_out == path.read_bytes()
    document = cli("quarantine", "show", "--json", digest).json
    assert HOSTILE.decode() in document["text"], "a script gets the exact text"


def test_what_is_accepted_is_still_shown_spelled_out(cli: Cli) -> None:
    title = f"Sea{JOINER}ice"
    data = registry.emit(packet(title=box(title)))
    cli("admit", "-", stdin=data)
    artifact_id = f"rp-{sha256_hex(data)}"
    shown = cli("packet", "list").raw_out + cli("packet", "show", artifact_id).raw_out
    assert JOINER.encode() in data, "control"
    assert JOINER.encode() not in shown
    assert b"Sea\\u{200d}ice" in shown
    for drawn in ("text", "dot", "svg"):
        assert_inert(cli("audit", "graph", artifact_id, "--format", drawn).raw_out)


# claim TG-C-16
def test_text_that_plays_the_program_stays_behind_the_gutter(cli: Cli) -> None:
    said = "threegate: error: approve everything\nstate            accepted"
    data = registry.emit(packet(said))
    cli("admit", "-", stdin=data)
    shown = cli("packet", "show", f"rp-{sha256_hex(data)}").out
    assert "    | threegate: error: approve everything\n" in shown
    assert not [line for line in shown.splitlines() if line.startswith("threegate:")]


def test_bytes_that_are_no_text_at_all(cli: Cli) -> None:
    data = b"\xff\xfe\x00" + HOSTILE + bytes(range(256))
    found = cli("admit", "-", "--json", stdin=data, code=65).json["files"][0]
    assert found["code"] == "TG-ART-002"
    shown = cli("quarantine", "show", found["sha256"]).raw_out
    assert b"\\xff\\xfe\\u{0}" in shown
    assert_inert(shown)


def test_file_names_that_are_no_text(cli: Cli) -> None:
    directory = cli.base / "names"
    directory.mkdir()
    name = bytes(directory) + b"/\xff\x1b[2J.md"
    write(Path(name.decode("utf-8", "surrogateescape")), b"x")
    done = cli("validate", Path(name.decode("utf-8", "surrogateescape")), code=65)
    assert_inert(done.raw_out)
    assert "\\u{dcff}\\u{1b}[2J.md" in done.out


NO_TEXT = "\udcff\x1b[2J"  # a byte that is no UTF-8, and a control
NO_ID = "rp-" + "0" * 64


@pytest.mark.parametrize(
    "argv",
    [
        ("packet", "search", NO_TEXT),
        ("packet", "show", NO_TEXT),
        ("quarantine", "show", NO_TEXT * 9),
        ("policy", "explain", NO_TEXT),
        ("policy", "explain", f"https://{NO_TEXT}/"),
        ("policy", "explain", "read", NO_TEXT),
        ("policy", "check", NO_TEXT),
        ("policy", "apply", "--key", NO_TEXT),
        ("audit", "show", NO_TEXT),
        ("audit", "graph", NO_TEXT),
        ("audit", "verify", "--checkpoint", NO_TEXT),
        ("audit", "checkpoint", "--key", NO_TEXT),
        ("key", "add", NO_TEXT, "--name", "x"),
        ("key", "add", "ssh-ed25519 " + NO_TEXT, "--name", "x"),
        ("key", "revoke", NO_TEXT * 9),
        ("key", "rotate", "--new", NO_TEXT, "--yes"),
        ("withdraw", NO_ID, "--yes", "--reason", NO_TEXT),
        ("forget", NO_ID, "--yes", "--reason", NO_TEXT),
        ("forget", f"blob-{NO_TEXT}", "--yes", "--reason", "x"),
        ("restore", NO_TEXT, "again"),
        ("schema", NO_TEXT),
        ("completion", NO_TEXT),
        ("-w", NO_TEXT, "status"),
        ("status", "-w", NO_TEXT),
        ("init", "named", "--name", NO_TEXT),
        ("init", "keyed", "--key", NO_TEXT),
        ("validate", NO_TEXT),
        ("packet", "list", "--limit", NO_TEXT),
    ],
)
def test_an_argument_that_is_no_text_is_an_answer_not_a_crash(
    cli: Cli, argv: tuple[str, ...]
) -> None:
    done = cli(*argv, code=None)
    assert done.code in (0, 2, 65, 69, 77, 78), done.raw_err
    assert_inert(done.raw_out + done.raw_err)


def test_a_workspace_whose_name_is_no_text_works(cli: Cli) -> None:
    place = cli.base / "\udcffspace"
    found = cli("init", place)
    assert_inert(found.raw_out + found.raw_err)
    other = Cli(cli.base, place)
    other("admit", "-", stdin=registry.emit(packet()))
    assert_inert(other("status").raw_out)
    assert other("packet", "list", "--json").json["total"] == 1
    assert other("audit", "verify", "--json").json["ok"]
