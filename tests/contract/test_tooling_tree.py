"""What stands in the repository: locks with hashes, no machine, no registry, every target."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("runtime", "dev", "lock")

# Spelt in pieces, so that this file does not find itself.
REGISTRIES = re.compile(
    b"|".join(
        re.escape(".".join(parts)).encode()
        for parts in [
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("pypi", "python", "org"),
            ("npmjs", "org"),
            ("npmjs", "com"),
            ("deb", "debian", "org"),
            ("crates", "io"),
        ]
    )
)
MACHINE_PATHS = re.compile(
    rb"(?<![\w.~])/(?:home|Users|root|work)/[\w.]" + rb"|/opt/(?:pypi|wheels)"
)


def tracked() -> list[Path]:
    """Return every file that git knows or would add."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    return [ROOT / name for name in listed.split("\0") if name]


def findings(pattern: re.Pattern[bytes]) -> list[str]:
    files = [path for path in tracked() if path.is_file() and not path.is_symlink()]
    assert len(files) > 40, "control: git listed the tree"
    return [
        f"{path.relative_to(ROOT)}: {match.group()!r}"
        for path in files
        for match in pattern.finditer(path.read_bytes())
    ]


def test_the_patterns_find_what_they_look_for() -> None:
    assert REGISTRIES.search(b"https://files." + b"pythonhosted" + b".org/packages/x")
    assert MACHINE_PATHS.search(b"see " + b"/home" + b"/ada/notes")
    assert MACHINE_PATHS.search(b"'" + b"/root" + b"/.cache'")
    assert not MACHINE_PATHS.search(b"docs/work/flow and ~/home/x")


def test_no_file_names_a_registry() -> None:
    assert findings(REGISTRIES) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert findings(MACHINE_PATHS) == []


def requirements(lock: str) -> list[str]:
    """Return the requirements of a lock file, each with its continuation lines."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text("utf-8")
    return [entry for entry in re.split(r"\n(?! )", text) if entry.strip()]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_requirement_is_exact_and_hashed(lock: str) -> None:
    entries = requirements(lock)
    assert entries
    for entry in entries:
        first, *hashes = entry.split(" \\\n")
        assert re.fullmatch(r"[a-z0-9._-]+==[\w.]+(?: ; .+)?", first), first
        assert hashes, entry
        assert all(re.fullmatch(r" {4}--hash=sha256:[0-9a-f]{64}\n?", line) for line in hashes)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_source(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text("utf-8")
    assert not re.search(r"://|index|find-links|@ |(?m:^ *[-/])(?!-hash)", text)


def test_the_development_lock_holds_the_runtime_lock() -> None:
    assert set(requirements("runtime")) <= set(requirements("dev"))


def test_the_wheel_asks_for_what_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = (ROOT / "requirements" / "runtime.in").read_text("utf-8").splitlines()
    assert project["dependencies"] == [line for line in lines if not line.startswith("#")]


# What each chosen library brings along; a name that is in nobody's list was not chosen.
NEEDED = {
    "ada-url": {"cffi", "pycparser"},
    "cryptography": {"cffi", "pycparser", "typing-extensions"},
    "dulwich": {"typing-extensions", "urllib3"},
    "h11": set(),
    "jinja2": {"markupsafe"},
    "lxml": set(),
    "numpy": set(),
    "pillow": set(),
    "pydantic-monty": {"pydantic-monty-client", "pydantic-monty-runtime", "typing-extensions"},
    "pypdfium2": set(),
    "pyyaml": set(),
    "selectolax": set(),
    "shtab": set(),
    "tinycss2": {"webencodings"},
    "trafilatura": {
        *("babel", "certifi", "charset-normalizer", "courlan", "dateparser", "htmldate", "justext"),
        *("lxml", "lxml-html-clean", "python-dateutil", "pytz", "regex", "tld", "tzdata"),
        *("tzlocal", "urllib3"),
    },
    "snowballstemmer": set(),
    "xllamacpp": set(),
}


def test_the_runtime_needs_the_chosen_libraries_and_what_they_need() -> None:
    names = {entry.split("==")[0] for entry in requirements("runtime")}
    assert names == set(NEEDED).union(*NEEDED.values())


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    # Under `make test` the outer make would hand its own options down.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_make_alone_lists_every_target() -> None:
    shown = make().stdout
    assert shown == make("help").stdout
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    wanted = {"setup", "check", "demo", "test", "lint", "bench", "slow", "bundle", "fuzz"}
    assert wanted <= set(phony.split())
    listed = re.findall(r"^  ([\w-]+) +\S", shown, re.MULTILINE)
    assert listed == phony.split()


@pytest.mark.parametrize(
    "target", ["check", "demo", "test", "lint", "corpus", "slow", "fuzz", "bench", "bundle"]
)
def test_every_target_sets_up_first(target: str) -> None:
    plan = make("--dry-run", target)
    assert plan.returncode == 0, plan.stderr
    # What only tests start is installed for those targets that start it.
    words = " tests" if target in {"test", "slow", "bench"} else ""
    assert plan.stdout.splitlines()[0] == f"bash scripts/setup.sh{words}"


def test_check_installs_nothing_that_only_tests_start() -> None:
    plan = make("--dry-run", "check").stdout + (ROOT / "scripts" / "check.sh").read_text("utf-8")
    assert "tests/unit" in plan, "control: it runs tests"
    assert "make lint" in plan
    for word in ("setup.sh tests", "model pull", "tests/e2e", "tests/escape"):
        assert word not in plan


def test_the_licence_is_the_whole_apache_licence() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_changelog_has_a_security_heading() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert "\n## [Unreleased]\n" in text
    assert "\n### Security\n" in text
