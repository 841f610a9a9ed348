"""A test internet: two network namespaces and a cable, made by the test and gone with it.

`Internet` is made inside a fresh namespace and makes the other one, with `internet_world` in
it.  The real network is in neither.  An ordinary user gets them inside a user namespace, and
gives its capabilities up before a box is started.  There are three ways in:

- `run_inside` plays a function of the tests there;
- `internet_place.Place` runs one command after the other there, `threegate` among them;
- `python -m tests.support.internet WORLD COMMAND...` runs a command there, for `make demo`.

For commands, `/etc/resolv.conf` is that of the test internet, in a mount namespace of their
own.  The test's certificate authority is in nobody's store: a policy must list it.
"""

import datetime as dt
import importlib
import json
import os
import pwd
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.origin import GATEWAY, HERE, sites_of
from threegate.sandbox import kernel

# -- Certificates of the test internet: one authority, and what can be wrong with a certificate.

_PEM = serialization.Encoding.PEM
_DAY = dt.timedelta(days=1)


class Authority:
    """Signs certificates; `days` moves the time they are good for."""

    def __init__(self, title: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(title)
        builder = _certificate(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        builder = builder.add_extension(_signs_certificates(), critical=True)
        self.certificate = builder.sign(self._key, hashes.SHA256())

    def issue(self, names: Iterable[str], *, days: int = 0) -> bytes:
        """Return a new key and a certificate for `names`, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _certificate(_named("origin"), self._name, key.public_key(), days=days)
        subjects = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        builder = builder.add_extension(subjects, critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        return _pair(key, builder.sign(self._key, hashes.SHA256()))


def make_certificates(directory: Path, kinds: dict[str, list[str]]) -> None:
    """Write `ca.pem`, and `KIND.pem` for the names of each kind."""
    authority = Authority("test internet")
    (directory / "ca.pem").write_bytes(authority.certificate.public_bytes(_PEM))
    makers = {
        "good": authority.issue,
        "wrong-name": lambda _: authority.issue(["elsewhere.example"]),
        "expired": lambda names: authority.issue(names, days=-30),
        "other-ca": lambda names: Authority("somebody else").issue(names),
        "self-signed": self_signed,
    }
    for kind, names in kinds.items():
        (directory / f"{kind}.pem").write_bytes(makers[kind](names))


def self_signed(names: Iterable[str]) -> bytes:
    """Return a key and a certificate that only speaks for itself."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _named("origin")
    subjects = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    builder = _certificate(name, name, key.public_key()).add_extension(subjects, critical=False)
    return _pair(key, builder.sign(key, hashes.SHA256()))


def _pair(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> bytes:
    kept = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return kept + certificate.public_bytes(_PEM)


def _named(title: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, days: int = 0
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC) + days * _DAY
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - _DAY,
        not_valid_after=now + _DAY,
    ).add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _signs_certificates() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


ROOT = Path(__file__).parents[2]
RESOLV_CONF = f"nameserver {GATEWAY}\n"
LYING = "tests.support.origins.simple:lying_world"
CA_VARIABLE = "TEST_INTERNET_CA"  # tells a script where the certificate authority's file is
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
SECONDS = 280.0
_AS_USER = ("--user", "--map-current-user", "--keep-caps") if os.geteuid() else ()
NAMESPACES = ("unshare", *_AS_USER, "--net", "--mount")
_PR_CAP_AMBIENT, _CLEAR_ALL = 47, 4
_BIND = 0x1000


def python(module: str) -> tuple[str, ...]:
    """Return how to run a module with the very paths this process has."""
    run = f"import runpy,sys;sys.path[:]={sys.path!r};runpy.run_module('{module}',None,'__main__')"
    return sys.executable, "-I", "-S", "-B", "-c", run


def run_inside(target: str, directory: Path) -> Any:
    """Run `module:function`, given `directory`, in namespaces of its own."""
    ran = subprocess.run(
        [*NAMESPACES, *python("tests.support.internet"), "--play", target, directory],
        cwd=ROOT,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode("utf-8", "replace")
    return json.loads((directory / "told.json").read_text("utf-8"))


def inside() -> None:
    """Be `run_inside` for whoever this process runs as."""
    json.dump(run_inside(sys.argv[1], Path(sys.argv[2])), sys.stdout)


class Internet:
    """The other namespace, with everything in it that can be reached from this one."""

    def __init__(self, directory: Path, world: str = LYING, *, names: bool = False) -> None:
        """Make it; with `names`, this mount namespace asks its name server."""
        self._log = directory / "world.jsonl"
        self.ca = directory / "ca.pem"
        kinds: dict[str, list[str]] = {"good": ["test.internet"]}
        for name, site in sites_of(world).items():
            kinds.setdefault(site.certificate, []).append(name)
        make_certificates(directory, kinds)
        self._world = subprocess.Popen(
            ["unshare", "--net", *python("tests.support.internet_world"), world, directory],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            self._connect()
            if names:
                _use_own_etc(directory)
        except BaseException:
            self._world.kill()
            self._world.wait()
            raise
        # bubblewrap starts for root or for somebody without capabilities, for nobody between.
        kernel.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL)

    def _connect(self) -> None:
        assert self._world.stdin
        assert self._world.stdout
        assert self._world.stdout.readline() == b"here\n"
        there = str(self._world.pid)
        for arguments in (
            ["link", "set", "lo", "up"],
            ["link", "add", "tg0", "type", "veth", "peer", "name", "tg1", "netns", there],
            ["addr", "add", f"{HERE}/24", "dev", "tg0"],
            ["link", "set", "tg0", "up"],
            ["route", "add", "default", "via", GATEWAY],
        ):
            subprocess.run(["ip", *arguments], check=True)
        self._world.stdin.write(b"connected\n")
        self._world.stdin.flush()
        assert self._world.stdout.readline() == b"ready\n"

    def seen(self) -> list[dict[str, Any]]:
        """Return everything that happened on the far side so far."""
        return events(self._log)

    def arrived(self) -> list[dict[str, Any]]:
        """Return what happened so far, less the ends of connections: those may come late."""
        return arrivals(self.seen())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._world.communicate()


def events(log: Path) -> list[dict[str, Any]]:
    """Return what the far side wrote down; a mistake in a handler is the test's mistake."""
    found = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    bugs = [event["trace"] for event in found if event["event"] == "bug"]
    assert not bugs, bugs[0]
    return found


def arrivals(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what came and what was said to it; how a connection ended is written down late."""
    return [event for event in found if event["event"] not in {"bytes", "end"}]


def _use_own_etc(directory: Path) -> None:
    """Put our name server, and a line for a uid that nobody has, where programs look."""
    _cover("/etc/resolv.conf", directory / "resolv.conf", RESOLV_CONF)
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:  # ssh-keygen signs for known users only
        known = Path("/etc/passwd").read_text("utf-8")
        line = f"somebody:x:{os.getuid()}:{os.getgid()}::/nonexistent:/bin/sh\n"
        _cover("/etc/passwd", directory / "passwd", known + line)


def make_system_authority(directory: Path) -> None:
    """Let programs of this mount namespace find the test's authority among the system's."""
    known = Path(CERTIFICATES).read_text("utf-8")
    ours = (directory / "ca.pem").read_text("utf-8")
    _cover(os.path.realpath(CERTIFICATES), directory / "certificates.crt", known + ours)


def _cover(place: str, file: Path, text: str) -> None:
    file.write_text(text, "utf-8")
    file.chmod(0o644)
    kernel.mount(str(file), place, None, _BIND)


def play(target: str, directory: Path) -> None:
    """Run the target here and leave what it returns as JSON."""
    module, _, name = target.partition(":")
    told = getattr(importlib.import_module(module), name)(directory)
    (directory / "told.json").write_text(json.dumps(told), "utf-8")


def run_command(world: str, command: list[str], directory: Path) -> int:
    """Run a command on this terminal; return its exit code."""
    with Internet(directory, world, names=True) as internet:
        environment = {**os.environ, CA_VARIABLE: str(internet.ca)}
        return subprocess.run(command, env=environment, check=False).returncode


def enter_and_run(world: str, command: list[str]) -> int:
    """Make the namespaces, and run the command in them; without them where there are none."""
    # Some systems give namespaces without the right to change anything in them.
    probe = [*NAMESPACES, "ip", "link", "set", "lo", "up"]
    tried = subprocess.run(probe, capture_output=True, text=True, check=False)
    if tried.returncode:
        print(f"no test internet on this machine: {tried.stderr.strip()}", file=sys.stderr)
        return subprocess.run(command, check=False).returncode
    with tempfile.TemporaryDirectory(prefix="threegate-internet-") as directory:
        Path(directory).chmod(0o755)
        argv = [*NAMESPACES, *python("tests.support.internet"), "--run", directory, world, *command]
        return subprocess.run(argv, check=False).returncode


def main(argv: list[str]) -> int:
    if len(argv) < 2:
        print("usage: python -m tests.support.internet WORLD COMMAND...", file=sys.stderr)
        return os.EX_USAGE
    if argv[0] == "--play":
        os.umask(0o022)
        play(argv[1], Path(argv[2]))
        return 0
    if argv[0] == "--run":
        return run_command(argv[2], argv[3:], Path(argv[1]))
    return enter_and_run(argv[0], argv[1:])


# -- A file system in which everything that stays behind can be found: one directory can be
# written to, and scratch places that begin empty; all the rest is read-only.
# Made in a mount namespace of its own, before capabilities are given up.

SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")
_LEFT = ("/proc", "/sys", "/dev")  # no files of anybody's
_REMOUNT, _READ_ONLY = 0x20, 0x1
# In a user namespace the flags of a mount from outside cannot be taken off again.
_KEPT = {"nosuid": 0x2, "nodev": 0x4, "noexec": 0x8, "noatime": 0x400, "nodiratime": 0x800}


def seal(directory: Path) -> None:
    """Leave `directory` and the scratch places as all that can be written to."""
    kernel.mount(str(directory), str(directory), None, _BIND)
    kept = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in _needed(directory)}
    for place, options in _mounts().items():
        if place != str(directory) and not place.startswith(_LEFT):
            kernel.mount("none", place, None, _BIND | _REMOUNT | _READ_ONLY | _flags(options))
    for scratch in SCRATCH:
        kernel.mount("tmpfs", scratch, "tmpfs", 0)
        os.chmod(scratch, 0o1777)  # noqa: S103  # as scratch places are
    for path, fd in kept.items():
        path.mkdir(parents=True)
        kernel.mount(f"/proc/self/fd/{fd}", str(path), None, _BIND)
        os.close(fd)


def _needed(directory: Path) -> list[Path]:
    """Return what would be hidden and must not be: a clone of this project may lie in /tmp."""
    wanted = (directory, ROOT, Path(sys.base_prefix))
    return [path for path in wanted if any(map(path.is_relative_to, SCRATCH))]


def _mounts() -> dict[str, str]:
    """Return place and options of every mount; of several at one place the uppermost."""
    lines = Path("/proc/self/mountinfo").read_text("utf-8").splitlines()
    found = [line.split(" ") for line in lines]
    return {_unescaped(fields[4]): fields[5] for fields in found}


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _flags(options: str) -> int:
    return sum(_KEPT.get(option, 0) for option in options.split(","))


# -- Scenes that need more than one uid: played by root, in namespaces that are gone afterwards.


@contextmanager
def played(target: str) -> Iterator[dict[str, Any]]:
    """Give what `module:function` returned; for a fixture of a module's scope."""
    if os.geteuid() != 0:
        pytest.fail("needs root: accounts of several gates, podman and nftables")
    with tempfile.TemporaryDirectory(prefix="threegate-scenes-") as directory:
        yield run_inside(target, Path(directory))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
