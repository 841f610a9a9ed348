"""Images from the shipped lock, and what is in a guest that starts from one."""

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.boxes import run_as
from tests.support.guests import Ended, built, copied_packages, run
from threegate.host.images.build import KEPT_PROGRAMS, is_program
from threegate.host.images.contents import tree_of
from threegate.host.images.store import Image, digest_of


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return built(tmp_path_factory.mktemp("images"), "base")


# claim TG-C-222
def test_two_builds_from_one_lock_are_the_same_bytes(base: Image, tmp_path: Path) -> None:
    again = built(tmp_path / "again", "base")
    assert again.place != base.place
    assert again.digest == base.digest
    for name, part in again.manifest.files.items():
        assert digest_of(again.place / name) == digest_of(base.place / name) == part.sha256
    agent = tmp_path / "agent"
    agent.mkdir()
    (agent / "__main__.py").write_text("print('another')\n", "utf-8")
    other = built(tmp_path / "other", "base", agent=agent)
    assert other.digest != base.digest, "control: what differs has another digest"
    differ = {n for n, p in other.manifest.files.items() if p != base.manifest.files[n]}
    assert differ == {"agent.erofs"}, "a new agent leaves the other layers as they are"


# claim TG-C-222
def test_an_ordinary_user_builds_the_very_same_image(base: Image) -> None:
    with tempfile.TemporaryDirectory(prefix="threegate-debs-") as debs:
        Path(debs).chmod(0o755)
        copied_packages(Path(debs), "base")
        ran = run_as("ordinary user", "tests.support.guests:build_here", debs)
    assert (ran.code, ran.out.decode().strip()) == (0, base.digest), ran.err


def test_the_authors_program_finds_every_layer_in_order(base: Image) -> None:
    for path in base.layers.values():
        subprocess.run(["fsck.erofs", str(path)], capture_output=True, check=True)


# claim TG-C-381
def test_no_program_is_among_the_libraries_of_a_layer(base: Image) -> None:
    _compare_libraries(base, "base")


@pytest.mark.slow
# claim TG-C-381
def test_nor_among_those_of_the_scientific_layer(tmp_path: Path) -> None:
    _compare_libraries(built(tmp_path, "base", "science"), "base", "science")


def _compare_libraries(image: Image, *layers: str) -> None:
    root, _ = tree_of(image, layers)
    files = [path for path in (root / "usr").rglob("*") if path.is_file() and not path.is_symlink()]
    programs = {str(path.relative_to(root)) for path in files if is_program(path)}
    assert "usr/bin/true" in programs, "control: a program is known"
    assert {path for path in programs if not path.startswith("usr/bin/")} == KEPT_PROGRAMS


LOOK = """
import errno, json, os, socket, stat, sys

def tried(act):
    try:
        act()
    except OSError as exc:
        return errno.errorcode[exc.errno]
    return "done"

special, files = [], set()
for top, names, found in os.walk("/"):
    names[:] = [n for n in names if os.path.join(top, n) not in ("/proc", "/sys", "/dev")]
    for name in found + names:
        path = os.path.join(top, name)
        mode = os.lstat(path).st_mode
        files.add(path)
        if mode & 0o6000 or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            special.append(path)
mounts = {l.split()[1]: l.split()[2:4] for l in open("/proc/mounts")}
print(json.dumps({
    "python": sys.version_info[:2],
    "net": os.listdir("/sys/class/net"),
    "virtio": sorted(open(f"/sys/bus/virtio/devices/{d}/device").read().strip()
                     for d in os.listdir("/sys/bus/virtio/devices")),
    "modules": sorted(line.split()[0] for line in open("/proc/modules")),
    "connect": tried(lambda: socket.socket().connect(("192.0.2.1", 80))),
    "vsock": tried(lambda: socket.socket(40, socket.SOCK_STREAM)),
    "special": special,
    "files": sorted(files),
    "mounts": {place: mounts[place] for place in ("/", "/tmp", "/out", "/run", "/in")},
    "write": tried(lambda: open("/usr/bin/evil", "w")),
    "etc": tried(lambda: os.unlink("/etc/passwd")),
    "environment": dict(os.environ),
    "uid": os.getuid(),
    "arguments": sys.orig_argv,
}))
"""


# claim TG-C-224
def test_a_guest_has_no_network_even_if_it_is_given_a_card(base: Image, tmp_path: Path) -> None:
    card = ("-device", "virtio-net-device")  # QEMU warns that it has no peer, and adds it
    given = run(base, LOOK, tmp_path / "card", extra=card).json
    assert "0x0001" in given["virtio"], "control: the guest does have a network card"
    plain = run(base, LOOK, tmp_path / "plain").json
    assert "0x0001" not in plain["virtio"]
    for found in (given, plain):
        assert found["net"] == ["lo"]
        assert found["connect"] == "ENETUNREACH"
        assert found["vsock"] == "EAFNOSUPPORT"
        assert found["modules"] == [
            *("erofs", "libcrc32c", "overlay", "virtio", "virtio_blk"),
            *("virtio_console", "virtio_mmio", "virtio_ring"),
        ]
    assert plain["python"] == [3, 11]
    assert plain["environment"] == {"LC_CTYPE": "C.UTF-8"}  # Python's own, where there is none
    assert plain["arguments"][1:] == ["-I", "-S", "-B", "/threegate/agent/__main__.py"]


FORBIDDEN = (
    *("apt", "apt-get", "dpkg", "dpkg-deb", "pip", "pip3", "easy_install", "su", "sudo", "login"),
    *("curl", "wget", "nc", "ssh", "ip", "ifconfig", "ping", "mount", "umount", "modprobe"),
    *("insmod", "gcc", "cc", "ld", "perl", "bash", "busybox", "openssl", "git"),
)


# claim TG-C-224
def test_a_guest_has_no_installer_no_network_tool_and_nothing_setuid(
    base: Image, tmp_path: Path
) -> None:
    found = run(base, LOOK, tmp_path / "look").json
    files = set(found["files"])
    assert {"/usr/bin/python3.11", "/usr/bin/sort", "/usr/bin/sh", "/in/job.py"} <= files, "control"
    assert found["special"] == []
    places = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/libexec")
    assert not {f"{place}/{name}" for place in places for name in FORBIDDEN} & files
    assert not [path for path in files if "ensurepip" in path or path.endswith(".deb")]
    assert not [path for path in files if path.startswith(("/var", "/root", "/home", "/boot"))]
    assert sorted(path for path in files if path.startswith("/etc/")) == [
        *("/etc/group", "/etc/hosts", "/etc/nsswitch.conf", "/etc/passwd"),
    ]
    kind, options = found["mounts"]["/"]
    assert kind == "overlay"
    assert {"ro", "nosuid", "nodev"} <= set(options.split(","))
    assert (found["write"], found["etc"]) == ("EROFS", "EROFS")
    for place in ("/tmp", "/out", "/run"):
        kind, options = found["mounts"][place]
        assert kind == "tmpfs"
        assert {"rw", "nosuid", "nodev"} <= set(options.split(","))


READ_IN = """
import hashlib, json, os
found = {}
for top, _, names in os.walk("/in"):
    for name in names:
        path = os.path.join(top, name)
        with open(path, "rb") as file:
            found[path[4:]] = hashlib.sha256(file.read()).hexdigest()
try:
    open("/in/new", "w")
except OSError as exc:
    refused = exc.strerror
print(json.dumps([found, refused]))
"""


def test_the_guests_kernel_reads_thousands_of_inputs_as_they_were_written(
    base: Image, tmp_path: Path
) -> None:
    sizes = (0, 1, 4095, 4096, 4097, 70_000)
    files = {f"set/{n % 9}/{n:04}.csv": os.urandom(sizes[n % 6]) for n in range(2000)}
    files |= {"ümläut": b"x", "n" * 255: b"y"}
    found, refused = run(base, READ_IN, tmp_path / "in", files=files).json
    expected = {**files, "job.py": READ_IN.encode()}
    assert found == {name: hashlib.sha256(data).hexdigest() for name, data in expected.items()}
    assert refused == "Read-only file system"


HOSTILE = """
import json, os, signal, time
tried = 0
for number in range(1, 65):
    for again in range(3):
        try:
            os.kill(1, number)
            tried += 1
        except OSError:
            pass
orphans = []
for _ in range(200):
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            os._exit(3)  # its parent ends first: the init has to reap it
        os._exit(0)
    os.waitpid(pid, 0)
def zombies():
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = open(f"/proc/{name}/stat").read().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] == "Z":
                found.append(int(name))
    return found
while zombies():
    time.sleep(0.05)
print(json.dumps({"tried": tried, "init": open("/proc/1/stat").read().split()[2]}))
"""


# claim TG-C-225
def test_the_init_survives_every_signal_reaps_and_ends_with_the_agent(
    base: Image, tmp_path: Path
) -> None:
    ended = run(base, HOSTILE, tmp_path / "hostile")
    assert ended.json["tried"] > 150, "control: the signals were sent"
    assert ended.json["init"] in "SR"
    assert ended.code == 0
    assert b"panic" not in ended.console


@pytest.mark.parametrize("how", ["os.kill(os.getpid(), 9)", "os._exit(77)", "os.kill(-1, 9)"])
# claim TG-C-225
def test_the_machine_is_over_when_the_agent_is(how: str, base: Image, tmp_path: Path) -> None:
    stays = "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass\n"
    ended = run(base, f"{stays}print('up', flush=True)\n{how}\n", tmp_path / "over")
    assert ended.said == b"up\n", "control: the agent was there"
    assert ended.code == 0  # off, although a program of the guest would have stayed for ever


def test_a_guest_without_layers_ends_at_once(base: Image, tmp_path: Path) -> None:
    """Nothing to start from: the machine is off, nobody waits for ever."""
    nothing = Image(base.digest, base.place, type(base.manifest)({}, (), "", "", ""))
    ended: Ended = run(nothing, "", tmp_path / "nothing")
    assert ended.code == 0
    assert ended.said == b""
    assert b"no disk is layer0" in ended.console


SCIENCE = """
import json, os, sys
os.environ.update(MPLCONFIGDIR="/tmp", HOME="/tmp")
sys.path.append("/usr/lib/python3/dist-packages")
import numpy, pandas, scipy, matplotlib, sympy, PIL
matplotlib.use("Agg")
import matplotlib.pyplot as plt
from scipy import integrate, interpolate, linalg, optimize, signal, sparse, spatial, stats
import scipy.sparse.linalg
table = pandas.read_csv("/in/table.csv")
means = table.groupby("group")["value"].mean()
means.plot(kind="bar")
plt.savefig("/out/means.png")
plt.savefig("/out/means.pdf")
plt.savefig("/out/means.svg")
matrix = numpy.arange(9.0).reshape(3, 3) + numpy.eye(3)
from PIL import Image
print(json.dumps({
    "versions": [m.__version__ for m in (numpy, pandas, scipy, matplotlib, sympy, PIL)],
    "means": {k: float(v) for k, v in means.items()},
    "root": float(optimize.brentq(lambda x: x * x - 2, 0, 2)),
    "inverse": bool(numpy.allclose(matrix @ linalg.inv(matrix), numpy.eye(3))),
    "p": float(stats.ttest_ind([1, 2, 3, 4], [2, 3, 4, 9]).pvalue),
    "area": float(integrate.quad(numpy.sin, 0, numpy.pi)[0]),
    "symbolic": str(sympy.integrate(sympy.Symbol("x") ** 2)),
    "image": Image.open("/out/means.png").size,
    "heads": [open(f"/out/means.{k}", "rb").read(5).decode("latin-1") for k in ("pdf", "svg")],
}))
"""


@pytest.mark.slow
def test_the_science_layer_is_reproducible_and_its_libraries_work(tmp_path: Path) -> None:
    image = built(tmp_path / "one", "base", "science")
    assert built(tmp_path / "two", "base", "science").digest == image.digest
    table = b"group,value\n" + b"".join(b"g%d,%d\n" % (n % 3, n) for n in range(3000))
    found = run(image, SCIENCE, tmp_path / "run", files={"table.csv": table}, memory=1024).json
    assert found["means"] == {"g0": 1498.5, "g1": 1499.5, "g2": 1500.5}
    assert abs(found["root"] - 2**0.5) < 1e-9
    assert found["inverse"] is True
    assert 0 < found["p"] < 1
    assert abs(found["area"] - 2) < 1e-9
    assert found["symbolic"] == "x**3/3"
    assert found["image"] == [640, 480]
    assert found["heads"] == ["%PDF-", "<?xml"]
