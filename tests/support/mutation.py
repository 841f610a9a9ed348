"""Removing one line of protection at a time from a copy of the package, and attacking it.

The filter's rules are removed one at a time as well.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import mutants
from tests.support.boxes import IS_ROOT, REPORT, open_to_all, repository, starter
from tests.support.mutants import (
    FILTERS,
    INNER_ROOT,
    KEEP_CAPS,
    MDWE_OFF,
    NO_USERNS,
    Edit,
    Mutant,
    forbidden,
)
from threegate.sandbox.filters import FORBIDDEN
from threegate.sandbox.syscalls import architecture

SANDBOX = "threegate/sandbox"
# The self-test would refuse to start most mutants; here the attempts have to notice.
NO_PROOFS = ("proofs.py", "    _PROOFS[kind](argument, numbers)\n", "    del kind, argument\n")
RUN_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happened without one line of protection."""

    mutant: Mutant
    noticed_by: tuple[str, ...]  # attempts, or what the host saw
    refused: str  # why the box did not start although nothing was proved
    proof: str  # what the self-test said, "" if it noticed nothing

    @property
    def as_told(self) -> bool:
        """Whether the table's claim holds: noticed, or masked and really not noticed."""
        if self.refused:
            return "refuses to start" in self.mutant.masked
        if self.mutant.perhaps:
            return True
        if self.mutant.masked:
            return not self.noticed_by
        return bool(self.noticed_by)


class Copy:
    """A copy of the package that can be changed."""

    def __init__(self, directory: Path) -> None:
        self.top = directory / "src"
        shutil.copytree(
            repository() / "src" / "threegate",
            self.top / "threegate",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        open_to_all(directory)

    @contextmanager
    def changed(self, mutant: Mutant, *, proofs: bool) -> Iterator[None]:
        """Apply a mutant, and undo it."""
        edits = [(edit.file, edit.old, edit.new) for edit in mutant.edits]
        if not proofs:
            edits.append(NO_PROOFS)
        saved: dict[Path, str] = {}
        try:
            for file, old, new in edits:
                path = self.top / SANDBOX / file
                text = path.read_text("utf-8")
                saved.setdefault(path, text)
                assert text.count(old) == 1, f"{mutant.name}: {old!r} is not once in {file}"
                path.write_text(text.replace(old, new), "utf-8")
            self._build(mutant)
            yield
        finally:
            for path, text in saved.items():
                path.write_text(text, "utf-8")
            self._build(mutant)

    def _build(self, mutant: Mutant) -> None:
        if mutant.build:
            script = repository() / "scripts" / "build_native.py"
            env = {**os.environ, "PYTHONPATH": str(self.top), "PYTHONDONTWRITEBYTECODE": "1"}
            subprocess.run([sys.executable, str(script)], check=True, env=env, capture_output=True)


def judge(copy: Copy, mutant: Mutant) -> Verdict:
    """Attack a mutant without the self-test, then see whether the self-test would notice."""
    with copy.changed(mutant, proofs=False):
        noticed, refused = _attacked(copy, mutant)
        if mutant.look:
            noticed += _looked(copy, mutant)
    with copy.changed(mutant, proofs=True):
        _, proof = _attacked(copy, mutant, names=("tree_opened",))
    return Verdict(mutant, tuple(noticed), refused, proof)


def _attacked(copy: Copy, mutant: Mutant, names: tuple[str, ...] = ()) -> tuple[list[str], str]:
    wanted = names or mutant.names or ("together",)
    process = starter(mutant.starter).start(
        REPORT,
        [",".join(mutant.profiles), ",".join(wanted), "no-control"],
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        stderr=subprocess.PIPE,
        paths=(str(copy.top), str(repository())),
    )
    out, err = process.communicate(timeout=RUN_SECONDS)
    if process.returncode:
        return [], err.decode("utf-8", "replace").strip().rpartition("\n")[2]
    results: list[dict[str, Any]] = json.loads(out)
    refused = [item["detail"] for item in results if item["reason"] == "not started"]
    if refused:
        return [], str(refused[0])
    return [f"{i['name']} ({_short(i)})" for i in results if not i["held"]], ""


def _short(item: dict[str, Any]) -> str:
    return str(item["reason"] or item["outcome"])


def _looked(copy: Copy, mutant: Mutant) -> list[str]:
    """See what only the host can see: whose the processes are, and whether any stays."""
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    host = starter(mutant.starter).start(
        "tests.support.faults:hold",
        [mark],
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
        paths=(str(copy.top), str(repository())),
    )
    assert host.stdin and host.stdout
    with host.stdin, host.stdout:
        host.stdout.readline()
        uids = identities(mark) if mutant.look == "uids" else []
        host.send_signal(signal.SIGKILL)
        host.wait()
    found = [f"the gate runs as {item}" for item in uids if "0" in item.split()]
    end = time.monotonic() + 3
    while marked(mark) and time.monotonic() < end:
        time.sleep(0.05)
    left = marked(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return [*found, *(["a process outlives its host"] if left else [])]


def marked(mark: str) -> list[int]:
    """Return every process whose arguments hold the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def identities(mark: str) -> list[str]:
    """Return uids, gids and groups of each process of a box, but not of its host."""
    found = []
    for pid in marked(mark):
        text = Path(f"/proc/{pid}/status").read_text("ascii")
        lines = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        if lines["NoNewPrivs"] == "1":  # the host itself has given nothing up
            found.append(" ".join((lines["Uid"], lines["Gid"], lines["Groups"])))
    return found


def runnable(mutant: Mutant) -> bool:
    """Whether this user can judge the mutant: what root does only root can undo."""
    return IS_ROOT or mutant.starter != "root"


# -- Each rule of the seccomp filters, as an edit that removes it; and the list of all mutants.

ROOT_ONLY = "the kernel asks for root of the first user namespace first, which no gate has"
CAPABILITY = "the kernel asks for a capability first, and the box has none"
# Calls whose rule no attempt can miss, as the kernel would refuse them with the same errno.
HELD_BY_RIGHTS = {
    **dict.fromkeys(("acct", "bpf", "swapoff", "swapon", "syslog", "vhangup"), ROOT_ONLY),
    **dict.fromkeys(("delete_module", "finit_module", "init_module"), ROOT_ONLY),
    **dict.fromkeys(("kexec_file_load", "kexec_load"), ROOT_ONLY),
    **dict.fromkeys(("fsmount", "fsopen", "fspick", "move_mount", "pivot_root"), CAPABILITY),
    **dict.fromkeys(("reboot", "setdomainname", "sethostname"), CAPABILITY),
}


def forbidden_calls() -> Iterator[Mutant]:
    for name in FORBIDDEN:
        if name in architecture().numbers:
            perhaps = HELD_BY_RIGHTS.get(name, "")
            yield Mutant(f"rule on {name}", "filter", (forbidden(name),), perhaps=perhaps)
    yield Mutant(
        "rules on sethostname and setdomainname, capabilities and root inside",
        "filter",
        (forbidden("sethostname"), forbidden("setdomainname"), KEEP_CAPS, INNER_ROOT, NO_USERNS),
        names=("host_renamed", "domain_renamed"),
    )
    yield Mutant(
        "rules on the mount calls, capabilities and root inside",
        "filter",
        (
            *(forbidden(n) for n in ("fsopen", "fsmount", "fspick", "move_mount", "pivot_root")),
            KEEP_CAPS,
            INNER_ROOT,
            NO_USERNS,
        ),
        names=("file_system_opened", "file_system_mounted", "mount_moved", "root_pivoted"),
    )


def filter_rules() -> Iterator[Mutant]:
    layer = "filter"

    def rule(name: str, old: str, new: str = "", **more: object) -> Mutant:
        return Mutant(name, layer, (Edit(FILTERS, old, new),), **more)  # type: ignore[arg-type]

    yield rule(
        "foreign ABI",
        "        (_RETURN, 0, 0, KILL),  # i386",
        "        (_RETURN, 0, 0, ALLOW),  # i386",
        names=("i386_call",),
    )
    yield rule(
        "x32 ABI",
        "        program += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, KILL)]\n",
        "        pass\n",
        names=("x32_call", "call_with_every_bit"),
    )
    yield rule(
        "calls of the future",
        "    program += [(_ABOVE, 0, 1, arch.last_known), (_RETURN, 0, 0, error(errno.ENOSYS))]\n",
        names=("call_of_the_future",),
        masked="this kernel has no call with a higher number",
    )
    yield rule("clone3", '    rules.append(CallRule("clone3", error(errno.ENOSYS)))\n')
    yield rule("execve", '        rules.append(CallRule("execve", denied))\n', "        pass\n")
    yield rule("execveat", '    rules.append(CallRule("execveat", denied))')
    yield rule("memfd_create", '    rules.append(CallRule("memfd_create", denied))')
    yield rule("fork", 'CallRule("fork", denied), ')
    yield rule("vfork", ', CallRule("vfork", denied)')
    yield rule(
        "clone without a thread",
        "ALLOW if profile.processes_may_fork else denied, (namespaces, thread)",
        "ALLOW, (namespaces, thread)",
    )
    yield rule(
        "clone with namespaces",
        "ALLOW if profile.processes_may_fork else denied, (namespaces, thread)",
        "ALLOW if profile.processes_may_fork else denied, (thread,)",
        profiles=("tool-lite",),
    )
    yield rule(
        "socket",
        'CallRule("socket", refused, tuple((Test(0, equal=f), ALLOW) for f in allowed)),\n',
    )
    yield rule(
        "socketpair: family",
        '((Test(0, outside=(FAMILIES["unix"],)), refused), stream)',
        "(stream,)",
    )
    yield rule(
        "socketpair: streams only",
        '(Test(0, outside=(FAMILIES["unix"],)), refused), stream)',
        '(Test(0, outside=(FAMILIES["unix"],)), refused),)',
        profiles=("fetch-normalize", "proxy"),
    )
    for name, line in (
        ("families", "        (Test(0, outside=allowed), refused),\n"),
        ("kinds", "        (Test(1, mask=SOCK_KIND, outside=kinds), refused),\n"),
        ("protocols", "        (Test(2, outside=PLAIN_PROTOCOLS), refused),\n"),
    ):
        yield rule(f"host network: socket {name}", line, profiles=("proxy", "bridge"))
    for name, pair in (
        ("sendto", '("sendto", 3), '),
        ("sendmsg", '("sendmsg", 2), '),
        ("sendmmsg", ', ("sendmmsg", 3)'),
    ):
        yield rule(f"host network: fast open by {name}", pair, profiles=("proxy", "bridge"))
    yield rule("host network: bind", 'CallRule("bind", denied), ', profiles=("proxy",))
    yield rule("host network: listen", ', CallRule("listen", denied)', profiles=("proxy",))
    yield rule("TIOCSTI", "for request in (TIOCSTI, TIOCLINUX))", "for request in (TIOCLINUX,))")
    yield rule("TIOCLINUX", "for request in (TIOCSTI, TIOCLINUX))", "for request in (TIOCSTI,))")
    for name in ("PR_SET_DUMPABLE", "PR_SET_MM", "PR_SET_PTRACER"):
        left = ", ".join(n for n in ("PR_SET_DUMPABLE", "PR_SET_MM", "PR_SET_PTRACER") if n != name)
        yield rule(
            f"prctl {name}",
            "    watched = (PR_SET_DUMPABLE, PR_SET_MM, PR_SET_PTRACER)",
            f"    watched = ({left})",
        )
    yield from code_rules()


def code_rules() -> Iterator[Mutant]:
    """Two layers keep new code out: the filter and the kernel's own write-xor-execute."""
    layer = "filter"
    mprotect = Edit(FILTERS, 'CallRule("mprotect", ALLOW, (executable,)),\n')
    pkey = Edit(FILTERS, '        CallRule("pkey_mprotect", ALLOW, (executable,)),\n')
    mmap = Edit(
        FILTERS, 'return [CallRule("mmap", ALLOW, (executable,)), *changing]', "return changing"
    )
    writable = Edit(FILTERS, "(data, writable, anonymous)", "(data, anonymous)")
    anonymous = Edit(FILTERS, "(data, writable, anonymous)", "(data, writable)")
    yield Mutant("mprotect", layer, (mprotect,))
    yield Mutant("pkey_mprotect", layer, (pkey,))
    yield Mutant("mmap", layer, (mmap,))
    yield Mutant("mmap in tool-lite: writable", layer, (writable,), profiles=("tool-lite",))
    yield Mutant("mmap in tool-lite: anonymous", layer, (anonymous,), profiles=("tool-lite",))
    yield Mutant("memory-deny-write-execute", "second stage", (MDWE_OFF,))
    yield Mutant("memory-deny-write-execute and mprotect", layer, (MDWE_OFF, mprotect))


def every() -> tuple[Mutant, ...]:
    """Return all mutants, in the order of the table."""
    found = (
        *mutants.bubblewrap(),
        *mutants.landlock(),
        *mutants.second_stage(),
        *mutants.limits(),
        *filter_rules(),
        *forbidden_calls(),
        *mutants.view(),
        *mutants.worker(),
        *mutants.root(),
    )
    assert len({item.name for item in found}) == len(found)
    return found
