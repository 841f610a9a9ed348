"""Each rule of the seccomp filters, as an edit that removes it; and the list of all mutants."""

from collections.abc import Iterator

from tests.support import mutants
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
    yield rule("clone3", '    rules.append(Rule("clone3", error(errno.ENOSYS)))\n')
    yield rule("execve", '        rules.append(Rule("execve", denied))\n', "        pass\n")
    yield rule("execveat", '    rules.append(Rule("execveat", denied))')
    yield rule("memfd_create", '    rules.append(Rule("memfd_create", denied))')
    yield rule("fork", 'Rule("fork", denied), ')
    yield rule("vfork", ', Rule("vfork", denied)')
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
        'Rule("socket", refused, tuple((Test(0, equal=f), ALLOW) for f in allowed)), ',
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
    yield rule("host network: bind", 'Rule("bind", denied), ', profiles=("proxy",))
    yield rule("host network: listen", ', Rule("listen", denied)', profiles=("proxy",))
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
    mprotect = Edit(FILTERS, 'Rule("mprotect", ALLOW, (executable,)), ')
    pkey = Edit(FILTERS, ', Rule("pkey_mprotect", ALLOW, (executable,))')
    mmap = Edit(
        FILTERS, 'return [Rule("mmap", ALLOW, (executable,)), *changing]', "return changing"
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
