"""Reading what is not in view: by path, by descriptor, by /proc, by handle, by mount."""

from __future__ import annotations

import ctypes
import os
import struct

from threegate.sandbox.attacks.base import (
    CHANGING_ROOT,
    CLONE_NEWNS,
    Blocked,
    Facts,
    attempt,
    call,
    collected,
    namespace_root,
    on_any,
)

AT_FDCWD = -100
O_PATH = 0o10000000


def _content(facts: Facts, path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return _secret(facts, file.read(4096))


def _secret(facts: Facts, text: str) -> str:
    if facts.secret_text not in text:
        raise Blocked("another text")
    return f"read {facts.secret_text}"


@attempt("ENOENT")
def secret_by_path(facts: Facts) -> str:
    return _content(facts, facts.secret)


@attempt("ENOENT")
def secret_by_climbing(facts: Facts) -> str:
    return _content(facts, "/usr/lib/../../../../../../.." + facts.secret)


@attempt("ENOENT")
def secret_by_climbing_from_a_descriptor(facts: Facts) -> str:
    top = os.open(facts.places[0], os.O_RDONLY | os.O_DIRECTORY)
    fd = os.open("../" * 12 + facts.secret.lstrip("/"), os.O_RDONLY, dir_fd=top)
    return _secret(facts, os.read(fd, 4096).decode())


@attempt("ENOENT")
def secret_by_openat2(facts: Facts) -> str:
    how = ctypes.create_string_buffer(struct.pack("<QQQ", os.O_RDONLY, 0, 0))
    fd = call("openat2", AT_FDCWD, os.fsencode(facts.secret), how, 24)
    return _secret(facts, os.read(fd, 4096).decode())


@attempt("ENOENT")
def secret_by_path_descriptor(facts: Facts) -> str:
    fd = os.open(facts.secret, O_PATH)
    return _content(facts, f"/proc/self/fd/{fd}")


@attempt("ENOENT")
def secret_by_listing(facts: Facts) -> str:
    return f"sees {os.listdir(facts.directory)}"


@attempt("ENOENT")
def secret_by_looking(facts: Facts) -> str:
    """Landlock does not hide names and sizes; the view must."""
    return f"{os.stat(facts.secret).st_size} bytes"


@attempt("ENOENT")
def secret_by_watching(facts: Facts) -> str:
    """A watch on a host's file tells when it is used."""
    fd = call("inotify_init1", 0)
    path = os.fsencode(facts.secret)
    return f"watch {call('inotify_add_watch', fd, path, 0xFFF)}"


@attempt("EBADF")
def secret_by_leaked_directory(facts: Facts) -> str:
    """A descriptor a sloppy caller left open is a way around every view."""
    fd = os.open(os.path.basename(facts.secret), os.O_RDONLY, dir_fd=facts.leaked_fd)
    return _secret(facts, os.read(fd, 4096).decode())


@attempt("none")
def any_leaked_descriptor(facts: Facts) -> str:
    if not facts.descriptors:
        raise Blocked("none")
    return f"open: {facts.descriptors}"


def _dropped_link(facts: Facts) -> str:
    place = facts.scratch or facts.places[0]
    os.symlink(facts.secret, f"{place}/link")
    return f"{place}/link"


@attempt("EACCES", "EROFS", "ENOENT")
def secret_by_symlink(facts: Facts) -> str:
    return _content(facts, _dropped_link(facts))


@attempt("EPERM")
def secret_by_handle(facts: Facts) -> str:
    """A file handle needs no path; the numbers can be guessed."""
    handle = ctypes.create_string_buffer(struct.pack("<Ii", 128, 0), 8 + 128)
    identity = ctypes.create_string_buffer(4)
    path = os.fsencode(facts.secret if facts.control else facts.targets[0])
    call("name_to_handle_at", AT_FDCWD, path, handle, identity, 0)
    return f"handle of {struct.unpack_from('<I', handle)[0]} bytes"


@attempt("EPERM", control="opening by handle needs root of the first user namespace")
def open_by_guessed_handle(facts: Facts) -> str:
    handle = ctypes.create_string_buffer(struct.pack("<IiQ", 8, 1, 2), 16)
    top = os.open(facts.places[0], os.O_RDONLY | os.O_DIRECTORY)
    return f"opened {call('open_by_handle_at', top, handle, os.O_RDONLY)}"


@attempt("ENOENT")
def user_list(facts: Facts) -> str:
    with open("/etc/passwd", encoding="utf-8") as file:
        return file.read(16)


@attempt("ENOENT", control="only root may read it")
def password_hashes(facts: Facts) -> str:
    with open("/etc/shadow", encoding="utf-8") as file:
        return file.read(16)


@attempt("ENOENT")
def places_of_the_host(facts: Facts) -> str:
    """Look for directories every Linux has and no gate needs."""
    names = ("/home", "/root", "/etc/ssh", "/var/log", "/boot", "/srv", "/opt", "/mnt", "/media")
    return on_any(names, os.stat)


@attempt("ENOENT")
def shell_in_view(facts: Facts) -> str:
    return on_any(
        ("/bin/sh", "/usr/bin/sh", "/bin/busybox", "/usr/bin/env", "/usr/bin/id"), os.stat
    )


_PROC = ("/proc/self/status", "/proc/1/stat", "/proc/version")


@attempt("ENOENT", granted=CHANGING_ROOT)
def proc_in_view(facts: Facts) -> str:
    return on_any(_PROC, os.stat)


@attempt("ENOENT", but={CHANGING_ROOT: "EACCES"})
def proc_read(facts: Facts) -> str:
    return on_any(_PROC, lambda path: os.close(os.open(path, os.O_RDONLY)))


@attempt("ENOENT")
def sys_in_view(facts: Facts) -> str:
    return on_any(("/sys/kernel", "/sys/class/net", "/sys/fs/cgroup"), os.stat)


@attempt("ENOENT")
def devices_in_view(facts: Facts) -> str:
    names = ("tty", "mem", "kmsg", "fuse", "net/tun", "ptmx", "shm", "mqueue", "vda", "sda", "full")
    return on_any([f"/dev/{name}" for name in names], os.stat)


@attempt("ENOENT")
def memory_directories(facts: Facts) -> str:
    """Places where programs leave things for each other."""
    return on_any(("/dev/shm", "/run/user", "/var/tmp", "/run/lock"), os.listdir)  # noqa: S108


@attempt("ENOENT")
def secret_by_victims_root(facts: Facts) -> str:
    return _content(facts, f"/proc/{facts.victim}/root{facts.secret}")


@attempt("ENOENT")
def secret_by_victims_descriptor(facts: Facts) -> str:
    return _content(facts, f"/proc/{facts.victim}/fd/{facts.victim_fd}")


@attempt("ENOENT")
def secret_by_victims_environment(facts: Facts) -> str:
    return _content(facts, f"/proc/{facts.victim}/environ")


@attempt("ENOENT")
def secret_by_victims_memory(facts: Facts) -> str:
    fd = os.open(f"/proc/{facts.victim}/mem", os.O_RDONLY)
    return _secret(facts, os.pread(fd, 64, facts.victim_address).decode("latin-1"))


@attempt("ENOENT")
def command_lines_of_others(facts: Facts) -> str:
    with open(f"/proc/{facts.victim}/cmdline", encoding="utf-8") as file:
        return file.read(32)


@attempt("EACCES")
def landlock_canary(facts: Facts) -> str:
    """In view and readable for everybody: only Landlock refuses it."""
    with open(facts.secret if facts.control else "/canary", encoding="utf-8") as file:
        return f"read {len(file.read())} characters"


@attempt("EACCES")
def landlock_top_listing(facts: Facts) -> str:
    return f"sees {os.listdir('/')}"


@attempt("EPERM")
def proc_by_mount(facts: Facts) -> str:
    namespace_root(CLONE_NEWNS | 0x20000000)  # CLONE_NEWPID, or /proc may not be mounted
    if facts.control and os.fork() == 0:
        os._exit(0)
    call(
        "mount", b"proc", os.fsencode(facts.places[0]), b"tmpfs" if facts.control else b"proc", 0, 0
    )
    return "mounted"


@attempt("EPERM")
def secret_by_bind_mount(facts: Facts) -> str:
    namespace_root(CLONE_NEWNS)
    target = os.fsencode(facts.targets[0])
    call("mount", os.fsencode(facts.secret), target, 0, 0x1000, 0)
    return _content(facts, facts.targets[0])


def _mounts() -> tuple[int, ...]:
    """Ask the kernel for every mount of this namespace."""
    request = ctypes.create_string_buffer(struct.pack("<IIQQQ", 32, 0, 0xFFFFFFFFFFFFFFFF, 0, 0))
    found = (ctypes.c_uint64 * 64)()
    return tuple(found[: call("listmount", request, found, 64, 0)])


@attempt("EPERM", control="listmount came with Linux 6.8")
def mounts_by_listmount(facts: Facts) -> str:
    return f"{len(_mounts())} mounts"


@attempt("EPERM", control="statmount came with Linux 6.8")
def host_paths_by_statmount(facts: Facts) -> str:
    """The kernel knows where each mount comes from: names of the host's directories."""
    mount = _mounts()[0] if facts.control else 1
    room = ctypes.create_string_buffer(4096)
    question = ctypes.create_string_buffer(struct.pack("<IIQQQ", 32, 0, mount, 0x8 | 0x10, 0))
    call("statmount", question, room, len(room), 0)
    return f"{room.raw[0]} bytes about one"


ATTEMPTS = collected(globals())
