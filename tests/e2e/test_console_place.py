"""Where the console is: links while it runs, a socket in place of a port, a unit for systemd."""

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.boxes import open_to_all
from tests.support.browser import chrome
from tests.support.cli import made
from tests.support.console import console, fresh, held

_TRY = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as found:
    found.connect(sys.argv[1])
    if sys.argv[3]:
        found.sendall(sys.argv[3].encode())
    print(found.recv(17).decode())
"""


def says(place: Path, uid: int, sent: str = "") -> str:
    """Return what a socket says to a process of somebody, or why it does not."""
    argv = [sys.executable, "-c", _TRY, str(place), str(uid), sent]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().rpartition("\n")[2]


# claim TG-C-216
def test_a_new_link_while_it_runs_is_for_the_operator_alone(tmp_path: Path) -> None:
    assert os.getuid() == 0, "needs root, to be somebody else"
    cli = made(tmp_path)
    with console(cli, "--no-run") as served:
        assert served.login(), "the first link"
        port = str(served.port)
        link = cli("serve", "--link", "--port", port).out.strip()
        path = link.removeprefix(served.base)
        assert path.startswith("/login/")
        assert served.ask("GET", path, User_Agent="another")[0] == 303
        assert served.ask("GET", path, User_Agent="another")[0] == 401, "it works once"
        place = tmp_path / ".local/state/threegate/console" / f"{port}.sock"
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700

        assert says(place, 0) == "http://127.0.0.1:", "control: the operator's own get one"
        assert "PermissionError" in says(place, 65534)
        for one in (place, *list(place.parents)[:4]):
            one.chmod(0o777)
        open_to_all(tmp_path)
        assert says(place, 65534) == "", "let through by the files, it is still told nothing"
        told = "".join(map(str, [*served.events, *served.noted]))
        assert path.removeprefix("/login/") not in told
    assert "[TG-CON-013]" in cli("serve", "--link", "--port", port, code=69).err


@dataclass
class Relay:
    """A port of loopback that leads to a socket, as `ssh -L` makes one; it can be cut."""

    target: Path
    listening: socket.socket
    ends: list[socket.socket] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    came: int = 0

    @property
    def port(self) -> int:
        return int(self.listening.getsockname()[1])

    def cut(self) -> None:
        """Break every connection there is."""
        for end in self.ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:  # the other side was faster
                continue
        self.ends.clear()

    def serve(self) -> None:
        while True:
            try:
                near, _ = self.listening.accept()
            except OSError:  # closed
                return
            self.came += 1
            far = socket.socket(socket.AF_UNIX)
            far.connect(str(self.target))
            self.ends += [near, far]
            thread = threading.Thread(target=_carry_both, args=(near, far))
            self.threads.append(thread)
            thread.start()


def _carry_both(near: socket.socket, far: socket.socket) -> None:
    with near, far:
        back = threading.Thread(target=_carry, args=(far, near))
        back.start()
        _carry(near, far)
        back.join()


def _carry(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # cut
        return


@contextmanager
def relay(target: Path) -> Iterator[Relay]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        found = Relay(target, listening)
        thread = threading.Thread(target=found.serve)
        thread.start()
        try:
            yield found
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            found.cut()
            for one in found.threads:
                one.join()


def test_on_a_socket_and_through_broken_connections_a_page_hears_everything(
    tmp_path: Path,
) -> None:
    cli, place = made(tmp_path), Path("/tmp") / f"console-{os.getpid()}.sock"
    with relay(place) as way:
        options = ("--no-run", "--socket", str(place), "--port", str(way.port))
        with console(cli, *options) as served, chrome() as browser:
            assert stat.S_IMODE(place.stat().st_mode) == 0o600
            words = ("serve", "--link", "--socket", str(place))
            link = cli(*words).out.strip()
            assert link.startswith(f"http://127.0.0.1:{way.port}/login/")
            tab = browser.tab().open(link)
            assert tab.url == f"http://127.0.0.1:{way.port}/inbox"
            tab.js("window.opened = 0")
            for number in range(3):
                held(cli, fresh(f"x = {number}\nx\n"))
                tab.wait("!document.getElementById('live').hidden")
                tab.js("document.getElementById('live').hidden = true")
                before = way.came
                way.cut()
                held(cli, fresh(f"y = {number}\ny\n"))  # nobody listens
                tab.wait("!document.getElementById('live').hidden")
                tab.js("document.getElementById('live').hidden = true")
                assert way.came > before, "control: it had to come again"
            assert tab.js("window.opened") == 0, "and the page was not loaded anew"
            assert cli("serve", "--socket", str(place), "--port", "1", code=69).err
            assert served.process.poll() is None
    assert not place.exists()


# claim TG-C-277
def test_on_a_socket_another_account_is_hung_up_on_too(tmp_path: Path) -> None:
    assert os.getuid() == 0, "needs root, to be somebody else"
    cli, place = made(tmp_path), Path("/tmp") / f"console-other-{os.getpid()}.sock"
    with console(cli, "--no-run", "--socket", str(place), "--port", "7433") as served:
        ask = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:7433\r\n\r\n"
        assert says(place, 0, ask).startswith("HTTP/1.1 200"), "control: the operator's own"
        assert "PermissionError" in says(place, 65534, ask), "by the mode of the file"
        place.chmod(0o777)
        told = says(place, 65534, ask)
        assert told == "" or "ConnectionReset" in told or "BrokenPipe" in told, told
        assert served.wait_for("turned-away")["reason"] == "another user", "and by the kernel"


def test_the_unit_names_the_file_of_a_key_from_anywhere(tmp_path: Path) -> None:
    cli = made(tmp_path)

    def key(named: str) -> str:
        text = cli("serve", "--print-unit", "--key", named).out
        line = next(one for one in text.split("\n") if one.startswith("ExecStart="))
        return _as_systemd_reads(line.removeprefix("ExecStart="))[-1]

    assert key("keys/mine") == str(tmp_path / "keys/mine")
    assert key("~/mine") == str(tmp_path / "mine")
    assert key("/etc/mine") == "/etc/mine"
    assert key("agent") == "agent", "control: that is no file"


def test_the_unit_runs_the_console_as_systemd_reads_it(tmp_path: Path) -> None:
    cli = made(tmp_path, name='odd "name" 100% $HOME')
    assert cli.workspace is not None
    text = cli("serve", "--print-unit", "--port", "7500", "--key", "agent").out
    unit = tmp_path / "threegate-console.service"
    unit.write_text(text, "utf-8")

    def verified() -> str:
        argv = ["systemd-analyze", "--user", "verify", "--man=no", str(unit)]
        env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
        return done.stderr

    assert verified() == ""
    unit.write_text(text.replace("ExecStart", "ExecStrat"), "utf-8")
    assert "ExecStrat" in verified(), "control: it reads what it is given"
    line = next(one for one in text.split("\n") if one.startswith("ExecStart="))
    assert "--no-link" in line, "a link must not be in the journal"
    assert _as_systemd_reads(line.removeprefix("ExecStart=")) == [
        *(sys.executable, "-I", "-m", "threegate", "serve", "-w", str(cli.workspace)),
        *("--port", "7500", "--json", "--no-link", "--warm", "2", "--key", "agent"),
    ]


def _as_systemd_reads(line: str) -> list[str]:
    """Return the words of a command, by the rules of systemd.service(5) for quoted ones."""
    words = line.strip('"').split('" "')
    pairs = (("%%", "%"), ("$$", "$"), ('\\"', '"'), ("\\\\", "\\"))
    for old, new in pairs:
        words = [word.replace(old, new) for word in words]
    return words


def test_without_a_first_link_none_is_printed(tmp_path: Path) -> None:
    cli = made(tmp_path)
    with console(cli, "--no-run", "--no-link") as served:
        port = served.port
        link = cli("serve", "--link", "--port", str(port)).out.strip()
        assert served.ask("GET", link.removeprefix(served.base))[0] == 303
        assert [one for one in served.events if one["event"] == "link"] == []
