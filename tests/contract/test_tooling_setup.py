"""scripts/setup.sh with a stand-in for python: what it runs, when it does nothing, what it says."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SANDBOX = "src/threegate/sandbox"
COPIED = (
    *("scripts/setup.sh", "requirements/dev.txt", "pyproject.toml", "src/threegate/__init__.py"),
    *(f"{SANDBOX}/{name}" for name in ("worker.py", "filters.py", "syscalls.py")),
    f"{SANDBOX}/native/launcher.c",
    "src/threegate/host/images/native/init.c",
    "scripts/build_native.py",
)

# Logs its arguments; `-m venv --clear DIR` puts a copy of itself where a venv has its python.
# As pip it prints on both streams, with a control character that must not reach a terminal.
STAND_IN = """#!/bin/sh
echo "$*" >>"{log}"
case "$*" in *"-m pip"*)
  for line in $(seq 40); do printf 'WARNING: line %s\\033[2J\\n' "$line"; done
  echo "noise on stderr" >&2
esac
case "$*" in
  *"-m venv"*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  *build_native*) for at in sandbox host/images; do mkdir -p src/threegate/$at/native/bin; done
    : >src/threegate/sandbox/native/bin/launcher >src/threegate/host/images/native/bin/init ;;
  *"{broken}"*) exit 1 ;;
  --version) echo "Python 3.9.1" ;;
esac
"""


@dataclass(frozen=True)
class Project:
    """A copy of what set-up reads, and a python that only takes notes."""

    directory: Path

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def setup_log(self) -> Path:
        return self.directory / ".setup.log"

    def stub(self, name: str, source: str) -> Path:
        path = self.directory / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source, "utf-8")
        path.chmod(0o755)
        return path

    def setup(self, *words: str, broken: str = "nothing is") -> subprocess.CompletedProcess[str]:
        python = self.stub("python", STAND_IN.format(log=self.log, broken=broken))
        path = f"{self.directory / 'bin'}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "PYTHON": str(python), "VENV": ".venv"}
        self.log.write_text("", "utf-8")
        command = ["bash", str(self.directory / "scripts" / "setup.sh"), *words]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=60
        )

    def installs(self) -> list[str]:
        """Return what was made or installed, in order."""
        return [
            line
            for line in self.log.read_text("utf-8").splitlines()
            if "-m venv" in line or " install " in line
        ]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    for name in COPIED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    return Project(tmp_path)


def test_the_first_run_installs_by_hash_and_then_the_project_without_an_index(
    project: Project,
) -> None:
    assert project.setup().returncode == 0
    venv, packages, editable = project.installs()
    assert venv == "-m venv --clear .venv"
    assert "--require-hashes --only-binary :all: -r requirements/dev.txt" in packages
    assert "--no-index --no-deps --no-build-isolation --editable ." in editable


def test_the_second_run_does_nothing(project: Project) -> None:
    project.setup()
    assert len(project.installs()) == 3, "control: the first run did"
    again = project.setup()
    assert again.returncode == 0
    assert again.stderr == ""
    assert project.installs() == []


def test_another_lock_makes_another_environment(project: Project) -> None:
    project.setup()
    with (project.directory / "requirements" / "dev.txt").open("a") as lock:
        lock.write("# changed\n")
    project.setup()
    assert "-m venv --clear .venv" in project.installs()


def test_another_version_only_installs_the_project_again(project: Project) -> None:
    project.setup()
    (project.directory / "src/threegate/__init__.py").write_text('__version__ = "9"\n', "utf-8")
    project.setup()
    (editable,) = project.installs()
    assert editable.endswith("--editable .")


STEP = re.compile(r"threegate: ([1-5]/5) [\w ,.]+ \.\.\. \d+ s")


def test_the_terminal_shows_steps_with_times_and_the_log_the_rest(project: Project) -> None:
    done = project.setup()
    assert done.stdout == ""
    shown = [STEP.fullmatch(line) for line in done.stderr.splitlines()]
    assert [match and match[1] for match in shown] == ["2/5", "3/5", "4/5", "5/5"]
    log = project.setup_log.read_text("utf-8")
    assert "WARNING: line 1\x1b[2J" in log, "control: pip did print"
    assert "noise on stderr" in log


def test_a_failure_shows_the_end_of_the_log_and_where_it_is(project: Project) -> None:
    failed = project.setup(broken="--require-hashes")
    assert failed.returncode == 69
    step, *tail, error, hint = failed.stderr.splitlines()
    assert re.fullmatch(r"threegate: 2/5 python packages, [\w .]+ \.\.\. failed after \d+ s", step)
    lines = [f"    WARNING: line {number}^[[2J" for number in range(27, 41)]
    assert tail == [*lines, "    noise on stderr"], (
        "the last lines only, without control characters"
    )
    assert error == "threegate: error: the locked packages could not be installed"
    assert hint == f"threegate: hint: the whole log is {project.setup_log}"
    assert "WARNING: line 1\x1b" in project.setup_log.read_text("utf-8")


def test_a_log_holds_one_run_only(project: Project) -> None:
    project.setup(broken="--require-hashes")
    assert project.setup().returncode == 0
    assert project.setup_log.read_text("utf-8").count("=== python packages") == 1


def test_an_install_that_failed_is_tried_again(project: Project) -> None:
    assert project.setup(broken="--require-hashes").returncode == 69
    assert project.setup().returncode == 0
    assert len(project.installs()) == 3


@pytest.mark.parametrize("answer", [0, 1])
def test_models_are_brought_as_quietly(project: Project, answer: int) -> None:
    project.setup()
    stub = project.stub("../.venv/bin/threegate", f"#!/bin/sh\necho pulled $*\nexit {answer}\n")
    assert stub.exists()
    done = project.setup("models", "one", "two")
    if answer == 0:
        assert re.fullmatch(r"threegate: 1/1 models \.\.\. \d+ s\n", done.stderr)
        return
    assert done.returncode == 69
    assert "    pulled model pull one two\n" in done.stderr
    assert "threegate: error: the models could not be downloaded\n" in done.stderr


def test_an_old_python_is_refused_by_name(project: Project) -> None:
    refused = project.setup(broken="version_info")
    assert refused.returncode == 69
    assert "error: Python 3.9.1 is too old, ThreeGate needs 3.11 or newer" in refused.stderr
    assert project.installs() == []


def test_without_rights_it_says_what_to_install(project: Project) -> None:
    project.stub("id", "#!/bin/sh\necho 1000\n")
    project.stub("sudo", "#!/bin/sh\nexit 1\n")
    project.stub("apt-get", f'#!/bin/sh\necho "apt-get install $*" >>"{project.log}"\n')
    refused = project.setup(broken="ensurepip")
    assert refused.returncode == 69
    assert "error: missing on this machine: python3-venv" in refused.stderr
    assert "hint: sudo apt-get install python3-venv" in refused.stderr
    assert project.installs() == []


@pytest.mark.parametrize(("uid", "rights"), [("0", "exit 1"), ("1000", 'shift; exec "$@"')])
def test_with_rights_it_installs_what_is_missing(project: Project, uid: str, rights: str) -> None:
    """Root, or sudo that asks for no password; the package repairs the stand-in."""
    project.stub("id", f"#!/bin/sh\necho {uid}\n")
    project.stub("sudo", f"#!/bin/sh\n{rights}\n")
    repair = f'sed -i s/ensurepip/mended/ "{project.directory}/bin/python"'
    project.stub(
        "apt-get",
        f'#!/bin/sh\necho "apt-get $*" >>"{project.log}"\n[ "$2" = update ] || {repair}\n',
    )
    done = project.setup(broken="ensurepip")
    assert done.returncode == 0, done.stderr
    assert project.installs()[0].endswith("install -y --no-install-recommends python3-venv")
    assert "-m venv --clear .venv" in project.installs()


def test_only_the_tests_ask_for_what_they_start(project: Project) -> None:
    """The demo installs no podman, Squid or QEMU; for the tests a missing one is named."""
    kept = "bash bwrap cat cc cp cut dirname find flock git id ip mkdir rm sed sh sha256sum"
    for name in (*kept.split(), "ssh-keygen", "tr"):
        found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        assert found is not None, name
        (project.directory / "bin").mkdir(exist_ok=True)
        (project.directory / "bin" / name).symlink_to(found)
    script = project.directory / "scripts" / "setup.sh"
    bare = script.read_text("utf-8").replace("PATH=$PATH:/usr/sbin:/sbin", "PATH=$PATH")
    script.write_text(bare, "utf-8")
    path = str(project.directory / "bin")
    python = project.stub("python", STAND_IN.format(log=project.log, broken="nothing is"))
    environment = {"PATH": path, "PYTHON": str(python), "VENV": ".venv", "HOME": path}

    def setup(*words: str) -> subprocess.CompletedProcess[str]:
        command = [f"{path}/bash", str(script), *words]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=60
        )

    assert setup().returncode == 0, "control: without them there is a .venv"
    refused = setup("tests")
    assert refused.returncode == 69
    wanted = "podman crun nftables squid-openssl debootstrap systemd curl chromium "
    wanted += "qemu-system-x86 runsc erofs-utils busybox-static zip\n"
    assert f"error: missing on this machine: {wanted}" in refused.stderr
