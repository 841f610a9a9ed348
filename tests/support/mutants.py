"""Each line of protection of the sandbox, as an edit that removes it.

A mutant names the files it changes, the profiles that are attacked with the line gone, and,
where another layer stands behind it, that layer: then there is a second mutant without both.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from threegate.sandbox.view import HIDDEN


@dataclass(frozen=True, slots=True)
class Edit:
    file: str
    old: str
    new: str = ""


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    layer: str
    edits: tuple[Edit, ...]
    profiles: tuple[str, ...] = ("fetch-normalize",)
    names: tuple[str, ...] = ()  # attempts that run; () means all that need no process of their own
    masked: str = ""  # why no attempt can notice, and what stands in the way
    perhaps: str = ""  # why none may notice on some kernels
    starter: str = "ordinary user"
    look: str = ""  # something only the host can see: `uids`, `orphans`
    build: bool = False  # the worker's lock has to be compiled anew


BOX, FILTERS, STAGE2, KERNEL = "box.py", "filters.py", "stage2.py", "kernel.py"
LAUNCH, SUPERVISE, VIEW, WORKER = "launch.py", "supervise.py", "view.py", "worker.py"


def _word(word: str, *more: str) -> Edit:
    lines = "".join(f'        "{item}",\n' for item in (word, *more))
    return Edit(BOX, lines)


NO_NET = Edit(BOX, '[] if profile.host_network else ["--unshare-net"]', "[]")
NO_USERNS = _word("--disable-userns")
NO_CLEARENV = _word("--clearenv")
ENVIRONMENT = Edit(LAUNCH, "            env={},\n", '            env={"HOME": "/root"},\n')
SESSION = _word("--new-session")
CAPS = Edit(BOX, '        "--cap-drop",\n        "ALL",\n')
INNER_ROOT = Edit(BOX, '_INNER_UID: Final = "1000"', '_INNER_UID: Final = "0"')
KEEP_CAPS = Edit(
    BOX, '        "--cap-drop",\n        "ALL",\n', '        "--cap-add",\n        "ALL",\n'
)
LANDLOCK_OFF = Edit(STAGE2, '    _step("Landlock", lambda: restrict(paths, ports, version))\n')
WRITABLE = Edit(
    BOX, 'arguments += ["--ro-bind", mount.source', 'arguments += ["--bind", mount.source'
)
LEAK = Edit(LAUNCH, "pass_fds=(*start.keep_fds, tell)", "pass_fds=(*start.keep_fds, tell, 200)")
NOT_CLOSED = Edit(STAGE2, '    _step("close_range", lambda: _close_others(keep, numbers))\n')
MDWE_OFF = Edit(
    STAGE2,
    '        _step("memory-deny-write-execute", lambda: prctl(PR_SET_MDWE, 1))\n',
    "        pass\n",
)

# No harm on a machine where these files are the user's own: a change that changes nothing.
HARMLESS_WRITES = ("change_owner",)


def forbidden(name: str) -> Edit:
    return Edit(FILTERS, f'\n    "{name}",\n', "\n")


def bubblewrap() -> Iterator[Mutant]:
    layer = "bubblewrap"
    yield Mutant(
        "--unshare-user",
        layer,
        (_word("--unshare-user"),),
        masked="bubblewrap refuses to start: --uid and --disable-userns need it",
    )
    yield Mutant("--unshare-pid", layer, (_word("--unshare-pid"),))
    yield Mutant("--unshare-net", layer, (NO_NET,), profiles=("fetch-normalize", "core"))
    yield Mutant("--unshare-ipc", layer, (_word("--unshare-ipc"),))
    yield Mutant(
        "--unshare-uts, --hostname",
        layer,
        (_word("--unshare-uts"), Edit(BOX, '        "--hostname",\n        profile.name,\n')),
    )
    yield Mutant(
        "--unshare-cgroup",
        layer,
        (_word("--unshare-cgroup"),),
        masked="its only effect is what /proc/self/cgroup shows, and there is no /proc",
    )
    yield Mutant(
        "--disable-userns",
        layer,
        (NO_USERNS,),
        masked="the filter forbids unshare, setns, clone with namespace flags, and clone3",
    )
    yield Mutant(
        "--disable-userns and the rule on unshare",
        layer,
        (NO_USERNS, forbidden("unshare")),
        names=("user_namespace",),
    )
    yield Mutant(
        "--uid, --gid",
        layer,
        (
            Edit(
                BOX,
                '        "--uid",\n        uid,\n        "--gid",\n        uid,\n',
            ),
        ),
        masked="which number the box sees changes no right; capabilities are dropped",
    )
    yield Mutant(
        "--cap-drop ALL",
        layer,
        (CAPS,),
        masked="bubblewrap drops them by itself when an ordinary user or a gate's uid starts it",
    )
    yield Mutant("--cap-drop ALL, and capabilities asked for", layer, (KEEP_CAPS, INNER_ROOT))
    yield Mutant("--die-with-parent", layer, (_word("--die-with-parent"),), look="orphans")
    yield Mutant("--new-session", layer, (SESSION,))
    yield Mutant(
        "--clearenv",
        layer,
        (NO_CLEARENV,),
        masked="the host starts bubblewrap with an empty environment",
    )
    yield Mutant("--clearenv and the empty environment", layer, (NO_CLEARENV, ENVIRONMENT))
    yield Mutant("empty environment", "host", (ENVIRONMENT,), masked="--clearenv")
    yield Mutant("--ro-bind of the view", layer, (WRITABLE,), names=HARMLESS_WRITES)
    yield Mutant(
        "--ro-bind of the loader",
        layer,
        (
            Edit(
                BOX, 'arguments += ["--ro-bind", view.loader', 'arguments += ["--bind", view.loader'
            ),
        ),
        names=HARMLESS_WRITES,
    )
    yield Mutant(
        "--ro-bind of what is given",
        layer,
        (
            Edit(
                BOX, 'arguments += ["--ro-bind", start.given', 'arguments += ["--bind", start.given'
            ),
        ),
        profiles=("core", "tool-lite"),
        names=HARMLESS_WRITES,
    )
    yield Mutant("--remount-ro /", layer, (Edit(BOX, '"--remount-ro", "/", '),))
    yield Mutant(
        "--remount-ro of hidden places",
        layer,
        (Edit(BOX, ', "--remount-ro", mount.inside'),),
        masked="Landlock grants no right to write there",
    )
    yield Mutant(
        "--remount-ro of hidden places, and Landlock",
        layer,
        (Edit(BOX, ', "--remount-ro", mount.inside'), LANDLOCK_OFF),
        names=("write_site_packages",),
    )
    yield Mutant(
        "--size of /tmp",
        layer,
        (Edit(BOX, '"--size", str(start.profile.scratch_bytes), '),),
        profiles=("engine",),
    )


def landlock() -> Iterator[Mutant]:
    layer = "Landlock"
    yield Mutant("Landlock", layer, (LANDLOCK_OFF,))
    yield Mutant("Landlock in tool-lite", layer, (LANDLOCK_OFF,), profiles=("tool-lite", "engine"))
    yield Mutant(
        "execute only what is named",
        layer,
        (Edit(KERNEL, '"r": READ_FILE | READ_DIR', '"r": READ_FILE | READ_DIR | EXECUTE'),),
        profiles=("tool-lite", "engine"),
    )
    yield Mutant(
        "write only to /tmp",
        layer,
        (
            Edit(
                KERNEL,
                '"r": READ_FILE | READ_DIR',
                '"r": READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | _MAKE',
            ),
        ),
        masked="the view is mounted read-only",
    )
    yield Mutant(
        "ports",
        layer,
        (Edit(KERNEL, "(BIND_TCP | CONNECT_TCP) if version >= 4 else 0", "0"),),
        profiles=("proxy", "bridge"),
    )
    yield Mutant(
        "scopes: abstract sockets and signals",
        layer,
        (Edit(KERNEL, "SCOPE_ALL if version >= 6 else 0", "0"),),
        profiles=("fetch-normalize", "core", "proxy"),
        masked="new network and process namespaces; those with the host's network lack AF_UNIX",
    )
    yield Mutant(
        "scopes and process namespace",
        layer,
        (Edit(KERNEL, "SCOPE_ALL if version >= 6 else 0", "0"), _word("--unshare-pid")),
        names=("signal_by_pid",),
    )


def second_stage() -> Iterator[Mutant]:
    layer = "second stage"
    yield Mutant("closing of descriptors", layer, (NOT_CLOSED,), masked="the host passes none on")
    yield Mutant(
        "no descriptor passed on by the host", "host", (LEAK,), masked="the second stage closes it"
    )
    yield Mutant("closing of descriptors, and one passed on", layer, (NOT_CLOSED, LEAK))
    yield Mutant(
        "dumpable",
        layer,
        (
            Edit(
                STAGE2,
                "(prctl(PR_SET_DUMPABLE, 0), prctl(PR_SET_PDEATHSIG, 9))",
                "prctl(PR_SET_PDEATHSIG, 9)",
            ),
        ),
    )
    yield Mutant(
        "death of the parent",
        layer,
        (
            Edit(
                STAGE2,
                "(prctl(PR_SET_DUMPABLE, 0), prctl(PR_SET_PDEATHSIG, 9))",
                "prctl(PR_SET_DUMPABLE, 0)",
            ),
        ),
        look="orphans",
        masked="the parent is the first process of the namespace: the kernel ends all with it",
    )
    yield Mutant(
        "no_new_privs",
        layer,
        (
            Edit(STAGE2, "    prctl(PR_SET_NO_NEW_PRIVS, 1)\n"),
            Edit(KERNEL, "        prctl(PR_SET_NO_NEW_PRIVS, 1)\n"),
        ),
        masked="bubblewrap sets it too, and without it neither Landlock nor seccomp would start",
    )
    yield Mutant(
        "seccomp",
        layer,
        (
            Edit(
                STAGE2,
                '_install(bytes.fromhex(orders["filter"][0]), numbers)',
                "None",
            ),
        ),
    )
    yield Mutant(
        "channel moved aside",
        layer,
        (Edit(STAGE2, "    os.dup2(2, 1)\n"),),
        names=("printed_flood",),
    )


LIMITS = {
    "core": ('        ("core", 1),', ("core_dump",)),
    "memlock": ('        ("memlock", 0),\n', ()),
    "msgqueue": ('        ("msgqueue", 0),\n', ()),
    "cpu": ('        ("cpu", profile.cpu_seconds),\n', ("processor_time",)),
    "processes": ('        ("processes", profile.processes),\n', ()),
    "open_files": ('        ("open_files", profile.open_files),\n', ()),
    "file_size": ('        ("file_size", profile.file_bytes),\n', ()),
    "address_space": ('        ("address_space", profile.memory_bytes),\n', ()),
}


def limits() -> Iterator[Mutant]:
    for name, (line, names) in LIMITS.items():
        new = "        #" if name == "core" else ""
        masked = {"msgqueue": "the filter forbids mq_open, and the namespace is new"}.get(name, "")
        profiles = ("engine", "fetch-normalize")
        yield Mutant(f"limit: {name}", "limits", (Edit(BOX, line, new),), profiles, names, masked)
    host = "host"
    yield Mutant(
        "limit: output",
        host,
        (Edit(SUPERVISE, "self._received > self._profile.output_bytes", "False"),),
        names=("output_flood", "flood_of_notes", "flood_of_empty_frames"),
    )
    yield Mutant(
        "limit: stderr",
        host,
        (Edit(SUPERVISE, '"output" if len(data) > room else None', "None"),),
        names=("error_flood",),
    )
    yield Mutant(
        "limit: time",
        host,
        (
            Edit(SUPERVISE, "            if left <= 0:\n", "            if left <= -8:\n"),
            Edit(SUPERVISE, "min(left, pause)", "pause"),
        ),
        names=("slow_drip",),
    )


def view() -> Iterator[Mutant]:
    for name in HIDDEN:
        yield Mutant(
            f"hidden: {name}",
            "view",
            (Edit(VIEW, f'\n    "{name}",\n', "\n"),),
            perhaps=_ABSENT.get(name, ""),
        )


_ABSENT = {"dist-packages": "this interpreter has no such directory; Debian's has"}


def root() -> Iterator[Mutant]:
    layer = "root"
    for name, line in (
        ("setresuid", "        os.setresuid(uid, uid, uid)\n"),
        ("setresgid", "        os.setresgid(uid, uid, uid)\n"),
        ("setgroups", "        os.setgroups(groups)\n"),
    ):
        yield Mutant(
            f"root gives up: {name}",
            layer,
            (Edit(LAUNCH, line),),
            names=("tree_opened",),
            starter="root",
            look="uids",
        )


def worker() -> Iterator[Mutant]:
    layer = "worker"
    w = ("monty-worker",)
    yield Mutant(
        "worker: default is the end",
        layer,
        (Edit(WORKER, "default=KILL", "default=ALLOW"),),
        w,
        build=True,
    )
    yield Mutant(
        "worker: clone for threads only",
        layer,
        (
            Edit(
                WORKER,
                'CallRule("clone", KILL, ((Test(0, bits=CLONE_THREAD), ALLOW),))',
                'CallRule("clone", ALLOW)',
            ),
        ),
        w,
        build=True,
    )
    yield Mutant(
        "worker: limits of itself only",
        layer,
        (
            Edit(
                WORKER,
                'CallRule("prlimit64", KILL, ((Test(0, equal=0), ALLOW),))',
                'CallRule("prlimit64", ALLOW)',
            ),
        ),
        w,
        build=True,
    )
    yield Mutant(
        "worker: files refused",
        layer,
        (
            Edit(WORKER, '    "openat": errno.EACCES,\n'),
            Edit(WORKER, '    "munmap",\n', '    "munmap",\n    "openat",\n'),
        ),
        w,
        build=True,
    )
