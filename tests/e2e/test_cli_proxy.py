"""proxy serve: the proxy as a service, without a network: what it says and how it ends."""

import signal
import stat
from pathlib import Path

import pytest

from tests.support.cli import made
from tests.support.proxies import bundle, request, without
from tests.support.serving import Serving

LISTED, UNLISTED = "api.crossref.org", "evil.example"


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    return Serving(tmp_path, bundle())


def test_it_serves_by_the_bundle_and_tells_every_decision(serving: Serving) -> None:
    rules = bundle()
    with serving:
        assert serving.first == {"event": "in-force", "generation": 1, "policy": rules.digest}
        assert stat.S_IMODE(serving.socket.stat().st_mode) in {0o660, 0o666}
        sock, answer = serving.connect(request(UNLISTED))
        sock.close()
        assert answer.startswith(b"HTTP/1.1 403 ")
        told = serving.hear()
        assert (told["host"], told["verdict"], told["reason"]) == (UNLISTED, "deny", "not-allowed")
        assert serving.end() == (0, "")
    assert not serving.socket.exists()


def test_a_hangup_puts_new_rules_in_force(serving: Serving) -> None:
    with serving:
        newer = without(LISTED)
        serving.apply(newer.bundle_bytes())
        assert serving.hear()["policy"] == newer.digest
        sock, _ = serving.connect(request(LISTED))
        sock.close()
        assert serving.hear()["reason"] == "not-allowed"


@pytest.mark.parametrize("rules", [b"", b"{}", b"\xff" * 100])
def test_rules_that_are_none_end_it(serving: Serving, rules: bytes) -> None:
    with serving:
        serving.apply(rules)
        code, said = serving.ended()
        assert code == 78
        assert said.startswith("threegate: error: bundle: ")
        assert "Traceback" not in said
    assert not serving.socket.exists(), "nobody can ask it any more"


def test_it_ends_when_nobody_reads_its_decisions(serving: Serving) -> None:
    with serving:
        assert serving.process.stdout
        serving.process.stdout.close()
        serving.process.stdout = None
        sock, _ = serving.connect(request(UNLISTED))
        sock.close()
        code, said = serving.ended()
        assert code == 74
        assert "nobody reads the proxy's decisions any more" in said
        assert "Traceback" not in said


def test_two_do_not_serve_at_one_place(serving: Serving, tmp_path: Path) -> None:
    with serving, pytest.raises(AssertionError, match="another proxy serves at"):
        Serving(tmp_path, bundle())


def test_what_a_killed_one_left_is_replaced(serving: Serving, tmp_path: Path) -> None:
    with serving:
        serving.end(signal.SIGKILL)
    assert serving.socket.exists(), "control: it could not remove it"
    with Serving(tmp_path, bundle()) as second:
        assert second.first["event"] == "in-force"


def test_mistakes_end_in_one_sentence(tmp_path: Path) -> None:
    cli = made(tmp_path)
    (tmp_path / "file").write_text("no socket", "utf-8")
    for options, code, said in (
        (("--socket", "file"), 74, "cannot make the socket of the proxy: EEXIST"),
        (("--socket", "nowhere/x.sock"), 74, "cannot make the socket of the proxy: ENOENT"),
        (("--socket", "x.sock", "--bundle", "gone"), 78, "cannot read"),
        (("--socket", "x.sock", "--bundle", "file"), 78, "not canonical JSON"),
        ((), 2, "--socket"),
    ):
        done = cli("proxy", "serve", *options, code=code)
        assert said in done.err, done.err
        assert "Traceback" not in done.err
    assert (tmp_path / "file").read_text("utf-8") == "no socket"


def test_without_a_bundle_it_decides_by_the_workspace(tmp_path: Path) -> None:
    cli = made(tmp_path)
    digest = cli("status", "--json").json["policy"]["digest"]
    with Serving(tmp_path, None, cli.env()) as serving:
        assert serving.first["policy"] == digest
