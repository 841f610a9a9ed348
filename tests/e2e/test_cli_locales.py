"""Other locales: the same results, and never a byte the terminal would obey."""

import subprocess
from pathlib import Path

import pytest

from tests.support.cli import Cli, made
from tests.support.samples import box, packet
from threegate.artifacts import registry
from threegate.artifacts.ids import sha256_hex

# In UTF-8 the first letter holds the byte 9B: on an 8-bit terminal the start of a sequence.
TITLE = "śruby 2J für Eis … 冰"
DATA = registry.emit(packet("Prüfung.", title=box(TITLE)))
CHARMAP = "<code_set_name> ISO-8859-1\n<comment_char> %\n<escape_char> /\nCHARMAP\n"
SOURCE = """\
comment_char %
escape_char /
LC_CTYPE
upper <U0041>..<U005A>
lower <U0061>..<U007A>
END LC_CTYPE
"""


@pytest.fixture(scope="module")
def latin(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment with a locale of ISO 8859-1, compiled here: few machines have one."""
    place = tmp_path_factory.mktemp("locales")
    rows = "".join(f"<U{point:04X}> /x{point:02x} c\n" for point in range(256))
    (place / "latin").write_text(f"{CHARMAP}{rows}END CHARMAP\n", "ascii")
    (place / "source").write_text(SOURCE, "ascii")
    compiled = place / "en_US.ISO-8859-1"
    command = ["localedef", "-c", "--no-archive", "-f", "./latin", "-i", "./source", str(compiled)]
    subprocess.run(command, cwd=place, capture_output=True, check=False)  # warns, so not 0
    assert (compiled / "LC_CTYPE").exists()
    return {"LOCPATH": str(place), "LC_ALL": "en_US.ISO-8859-1"}


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    cli = made(tmp_path_factory.mktemp("plätze"), name="wörk späce")
    cli("admit", "-", stdin=DATA)
    return cli


def shown(cli: Cli, env: dict[str, str]) -> bytes:
    return cli("packet", "list", env=env).raw_out


def test_control_in_utf8_the_letters_are_letters(cli: Cli) -> None:
    assert TITLE.encode() in shown(cli, {"LC_ALL": "C.UTF-8"})
    assert b"\x9b" in TITLE.encode()


def test_under_c_everything_is_ascii(cli: Cli) -> None:
    for name in ("C", "POSIX"):
        found = shown(cli, {"LC_ALL": name})
        assert found.isascii()
        assert b"\\u015bruby 2J f\\xfcr Eis ... \\u51b0" in found


def test_under_latin_1_its_letters_are_letters_and_no_more(cli: Cli, latin: dict[str, str]) -> None:
    found = shown(cli, latin)
    assert b"\\u015bruby 2J f\xfcr Eis ... \\u51b0" in found
    assert not [byte for byte in found if 0x80 <= byte < 0xA0]


def test_json_is_the_same_everywhere(cli: Cli, latin: dict[str, str]) -> None:
    argv = ("packet", "show", "--json", f"rp-{sha256_hex(DATA)}")
    found = [cli(*argv, env=env).raw_out for env in ({}, {"LC_ALL": "C"}, latin)]
    assert len(set(found)) == 1
    assert found[0].isascii()
    assert cli(*argv).json["fields"]["title"] == TITLE


def test_everything_works_in_every_locale(latin: dict[str, str], tmp_path: Path) -> None:
    # The word as this locale spells it on a command line: a byte FC is no UTF-8.
    words = ("Prüfung", "Pr\udcfcfung")
    for number, env in enumerate(({"LC_ALL": "C"}, latin)):
        other = made(tmp_path, name=f"ws-{number}")
        other.environment = env
        other("admit", "-", stdin=DATA)
        assert other("packet", "search", words[number]).raw_out.count(b"rp-") == 1
        other("audit", "checkpoint")
        other("policy", "check")
        assert other("audit", "verify").out.startswith("verified: ")
        error = other("packet", "show", "für", code=2).raw_err
        assert error.startswith(b"threegate: error: ")
        assert other("--help").out.startswith("usage: ")
