"""Installing or building anything, and changing what the gate is made of."""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig

from threegate.sandbox.attacks.base import EXECUTING, Facts, attempt, collected, on_any

_NOTHING = {EXECUTING: "ENOENT"}  # what may be executed is decided by Landlock, and it is not there


def _imported(name: str) -> str:
    module = importlib.import_module(name)
    if module.__file__ is None:
        raise ImportError("an empty directory")
    return f"imported {module.__name__}"


@attempt("ImportError", control="this interpreter came without pip")
def import_pip(facts: Facts) -> str:
    if facts.control:
        sys.path.append(sysconfig.get_path("purelib", vars={"base": sys.base_prefix}))
    return _imported("pip")


@attempt("ImportError", control="this interpreter came without ensurepip")
def import_ensurepip(facts: Facts) -> str:
    return _imported("ensurepip")


@attempt("ImportError", control="this interpreter came without venv")
def import_venv(facts: Facts) -> str:
    return _imported("venv")


@attempt("ImportError", control="this interpreter came without its tests")
def import_test_suite(facts: Facts) -> str:
    """The standard library's tests hold programs, keys and archives."""
    return _imported("test")


@attempt("ImportError", control="this interpreter came without its editor")
def import_editor(facts: Facts) -> str:
    return _imported("idlelib")


@attempt("ENOENT", control="this interpreter came without them")
def look_at_what_no_gate_needs(facts: Facts) -> str:
    top = os.path.dirname(os.__file__)
    names = ("lib2to3", "tkinter", "turtledemo")
    return on_any([f"{top}/{name}/__init__.py" for name in names], os.stat)


@attempt("ENOENT", "EACCES")
def list_site_packages(facts: Facts) -> str:
    top = os.path.dirname(os.__file__)
    found = [n for n in ("site-packages", "dist-packages", "ensurepip") if _filled(f"{top}/{n}")]
    if not found:
        raise FileNotFoundError(2, "hidden")
    return f"sees {found}"


def _filled(path: str) -> bool:
    try:
        return bool(os.listdir(path))
    except OSError:
        return False


def _tools(facts: Facts, *names: str) -> str:
    def start(path: str) -> None:
        os.execve(path, [path, "--version"], {})

    def run(path: str) -> None:
        try:
            pid = os.fork()
        except OSError:
            return start(path)
        if pid == 0:
            try:
                start(path)
            except OSError as exc:
                os._exit(exc.errno or 250)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code in {1, 2, 13}:
            raise OSError(code, "refused")
        return None

    return on_any([f"/usr/bin/{name}" for name in names], run)


@attempt("EPERM", but=_NOTHING)
def run_apt(facts: Facts) -> str:
    return _tools(facts, "apt", "apt-get", "dpkg", "dnf", "apk", "pacman", "zypper")


@attempt("EPERM", but=_NOTHING)
def run_pip(facts: Facts) -> str:
    return _tools(facts, "pip", "pip3", "uv", "pipx", "conda", "python3")


@attempt("EPERM", but=_NOTHING)
def run_compiler(facts: Facts) -> str:
    return _tools(facts, "cc", "gcc", "clang", "ld", "as", "rustc", "perl")


def _write(facts: Facts, places: list[str], name: str) -> str:
    def put(place: str) -> None:
        with open(f"{place}/{name}", "w", encoding="utf-8") as file:
            file.write("raise SystemExit\n")

    return on_any([facts.scratch] if facts.control else places, put)


@attempt("EACCES", "EROFS", "ENOENT")
def write_site_packages(facts: Facts) -> str:
    top = os.path.dirname(os.__file__)
    return _write(facts, [f"{top}/site-packages", f"{top}/dist-packages"], "own.py")


@attempt("EACCES", "EROFS")
def write_standard_library(facts: Facts) -> str:
    top = os.path.dirname(os.__file__)
    return _write(facts, [top, f"{top}/json", f"{top}/lib-dynload"], "own.py")


@attempt("EACCES", "EROFS")
def write_gate_package(facts: Facts) -> str:
    here = os.path.dirname(os.path.dirname(__file__))
    return _write(facts, [here, os.path.dirname(here)], "own.py")


@attempt("EACCES", "EROFS", "ENOENT")
def write_bytecode(facts: Facts) -> str:
    """Compiled modules are read before sources: a place to hide in."""
    here = os.path.dirname(os.path.dirname(__file__))
    return _write(facts, [f"{here}/__pycache__", here], "stage2.cpython-311.pyc")


@attempt("EACCES", "EROFS")
def write_start_hook(facts: Facts) -> str:
    """Files that an interpreter runs when it starts."""
    top = os.path.dirname(os.__file__)
    root = os.path.dirname(os.path.dirname(top))
    return _write(facts, [top, f"{root}/bin", root], "sitecustomize.py")


ATTEMPTS = collected(globals())
