"""Calls that are doors into the kernel: none of them may even be answered.

Where an ordinary user is refused anyway, arguments are chosen that the kernel looks at
before it looks at rights: then another reason shows that the filter let the call through.
"""

from __future__ import annotations

import ctypes
import os
import struct

from threegate.sandbox.attacks.base import (
    CHANGING_ROOT,
    CLONE_NEWNS,
    CLONE_NEWUTS,
    Facts,
    attempt,
    call,
    collected,
    namespace_root,
)

AT_FDCWD = -100
_ROOT = "needs root of the first user namespace"


def _bytes(size: int) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(size)


@attempt("EPERM", control="unprivileged BPF is switched off on most machines")
def bpf_map(facts: Facts) -> str:
    attributes = ctypes.create_string_buffer(struct.pack("<IIII", 2, 4, 8, 1), 120)
    return f"descriptor {call('bpf', 0, attributes, 120)}"


@attempt("EPERM", control="the attributes are longer than the kernel takes")
def bpf_anything(facts: Facts) -> str:
    return f"answered {call('bpf', 0, 0, 1 << 20)}"


@attempt("EPERM", control="kernel.perf_event_paranoid forbids it on some machines")
def performance_events(facts: Facts) -> str:
    # struct perf_event_attr: software task clock of this process, kernel and hypervisor excluded
    attributes = ctypes.create_string_buffer(struct.pack("<IIQQQQQ", 1, 112, 1, 0, 0, 0, 0x60), 112)
    return f"descriptor {call('perf_event_open', attributes, 0, -1, -1, 0)}"


@attempt("EPERM")
def page_faults_in_user_space(facts: Facts) -> str:
    return f"descriptor {call('userfaultfd', 1)}"  # UFFD_USER_MODE_ONLY


@attempt("EPERM")
def watch_of_a_whole_disk(facts: Facts) -> str:
    return f"descriptor {call('fanotify_init', 0x200, 0)}"  # FAN_REPORT_FID


@attempt("EPERM", control=_ROOT)
def new_kernel(facts: Facts) -> str:
    return f"answered {call('kexec_load', 0, 0, 0, 0)}"


@attempt("EPERM", control=_ROOT)
def new_kernel_from_a_file(facts: Facts) -> str:
    return f"answered {call('kexec_file_load', -1, -1, 0, 0, 0)}"


@attempt("EPERM", control=_ROOT)
def module_from_memory(facts: Facts) -> str:
    return f"answered {call('init_module', 0, 0, 0)}"


@attempt("EPERM", control=_ROOT)
def module_from_a_file(facts: Facts) -> str:
    return f"answered {call('finit_module', -1, 0, 0)}"


@attempt("EPERM", control=_ROOT)
def module_removed(facts: Facts) -> str:
    return f"answered {call('delete_module', 0, 0)}"


@attempt("EPERM", control=_ROOT)
def swap_added(facts: Facts) -> str:
    return f"answered {call('swapon', 0, 0)}"


@attempt("EPERM", control=_ROOT)
def swap_removed(facts: Facts) -> str:
    return f"answered {call('swapoff', 0)}"


@attempt("EPERM", control=_ROOT)
def machine_restarted(facts: Facts) -> str:
    return f"answered {call('reboot', 0, 0, 0, 0)}"  # no magic: refused even to root


@attempt("EPERM", control=_ROOT)
def accounting(facts: Facts) -> str:
    return f"answered {call('acct', b'/')}"


@attempt("EPERM")
def clock_read_by_adjtimex(facts: Facts) -> str:
    return f"state {call('adjtimex', _bytes(208))}"


@attempt("EPERM")
def clock_read_by_clock_adjtime(facts: Facts) -> str:
    return f"state {call('clock_adjtime', 0, _bytes(208))}"


@attempt("EPERM", control=_ROOT)
def clock_set(facts: Facts) -> str:
    return f"answered {call('clock_settime', 99, 0)}"  # no such clock


@attempt("EPERM", control=_ROOT)
def day_set(facts: Facts) -> str:
    return f"answered {call('settimeofday', -1, 0)}"


@attempt("EPERM", control="dmesg is closed to users on most machines")
def kernel_log(facts: Facts) -> str:
    return f"{call('syslog', 10, 0, 0)} bytes"


@attempt("EPERM", machine="x86_64", control="not built into every kernel")
def port_rights_by_level(facts: Facts) -> str:
    return f"answered {call('iopl', 0)}"


@attempt("EPERM", machine="x86_64", control="not built into every kernel")
def port_rights(facts: Facts) -> str:
    return f"answered {call('ioperm', 0, 1, 0)}"


@attempt("EPERM", machine="x86_64")
def segments_of_the_processor(facts: Facts) -> str:
    return f"{call('modify_ldt', 0, _bytes(64), 64)} bytes"


@attempt("EPERM", machine="x86_64", control="Linux no longer has it")
def library_by_the_oldest_call(facts: Facts) -> str:
    return f"answered {call('uselib', 0)}"


@attempt("EPERM", control="Linux 6.7 removed it")
def profiling_cookie(facts: Facts) -> str:
    return f"answered {call('lookup_dcookie', 0, 0, 0)}"


@attempt("EPERM", control=_ROOT)
def terminal_hung_up(facts: Facts) -> str:
    return f"answered {call('vhangup')}"


@attempt("EPERM")
def personality_read(facts: Facts) -> str:
    return f"{call('personality', 0xFFFFFFFF):#x}"


@attempt("EPERM", control="quotas are not built into every kernel")
def quota_of_every_disk(facts: Facts) -> str:
    return f"answered {call('quotactl', 0x80000100, 0, 0, 0)}"  # Q_SYNC


@attempt("EPERM", control="no disk with quotas is in view")
def quota_by_descriptor(facts: Facts) -> str:
    return f"answered {call('quotactl_fd', -1, 0, 0, 0)}"


@attempt("EPERM")
def host_renamed(facts: Facts) -> str:
    namespace_root(CLONE_NEWUTS)
    return f"answered {call('sethostname', b'owned', 5)}"


@attempt("EPERM")
def domain_renamed(facts: Facts) -> str:
    namespace_root(CLONE_NEWUTS)
    return f"answered {call('setdomainname', b'owned', 5)}"


@attempt("EPERM", granted=CHANGING_ROOT)
def root_changed(facts: Facts) -> str:
    namespace_root()
    return f"answered {call('chroot', b'/')}"


@attempt(
    "EPERM",
    granted=CHANGING_ROOT,
    control="the kernel looks at the path before it looks at rights",
)
def root_changed_to_nowhere(facts: Facts) -> str:
    return f"answered {call('chroot', 0)}"


@attempt("EPERM")
def root_pivoted(facts: Facts) -> str:
    namespace_root(CLONE_NEWNS)
    place = os.fsencode(facts.places[0])
    if facts.control:
        call("mount", 0, b"/", 0, 0x44000, 0)
        call("mount", b"none", place, b"tmpfs", 0, 0)
        os.mkdir(place + b"/old")
    return f"answered {call('pivot_root', place, place + b'/old')}"


@attempt("EPERM", control="the kernel looks at the pointers before it looks at rights")
def mount_nothing(facts: Facts) -> str:
    return f"answered {call('mount', -1, -1, -1, 0, -1)}"


@attempt("EPERM")
def unmount(facts: Facts) -> str:
    namespace_root(CLONE_NEWNS)
    place = os.fsencode(facts.places[-1])
    if facts.control:
        call("mount", b"none", place, b"tmpfs", 0, 0)
    return f"answered {call('umount2', place, 2)}"


@attempt("EPERM", control="the kernel looks at the flags before it looks at rights")
def unmount_nothing(facts: Facts) -> str:
    return f"answered {call('umount2', 0, 0x80)}"


@attempt("EPERM")
def file_system_opened(facts: Facts) -> str:
    namespace_root(CLONE_NEWNS)
    return f"descriptor {call('fsopen', b'tmpfs', 0)}"


@attempt("EPERM")
def file_system_made(facts: Facts) -> str:
    """The newer calls: open, configure, make, and put it into the tree."""
    namespace_root(CLONE_NEWNS)
    handle = call("fsopen", b"tmpfs", 0) if facts.control else -1
    call("fsconfig", handle, 6, 0, 0, 0)  # FSCONFIG_CMD_CREATE
    mounted = call("fsmount", handle, 0, 0)
    call("move_mount", mounted, b"", AT_FDCWD, os.fsencode(facts.places[0]), 4)
    return "mounted"


@attempt("EPERM", control="there is no file system to make it of")
def file_system_mounted(facts: Facts) -> str:
    return f"descriptor {call('fsmount', -1, 0, 0)}"


@attempt("EPERM")
def file_system_picked(facts: Facts) -> str:
    namespace_root(CLONE_NEWNS)
    place = os.fsencode(facts.places[0])
    if facts.control:
        call("mount", b"none", place, b"tmpfs", 0, 0)
    return f"descriptor {call('fspick', AT_FDCWD, place, 0)}"


@attempt("EPERM", control="there is no mount to move")
def mount_moved(facts: Facts) -> str:
    return f"answered {call('move_mount', -1, b'', AT_FDCWD, b'/', 4)}"


@attempt("EPERM")
def tree_opened(facts: Facts) -> str:
    return f"descriptor {call('open_tree', AT_FDCWD, b'/', 0)}"


@attempt("EPERM")
def tree_copied(facts: Facts) -> str:
    """OPEN_TREE_CLONE: a copy of a mount without its locks."""
    namespace_root(CLONE_NEWNS)
    return f"descriptor {call('open_tree', AT_FDCWD, os.fsencode(facts.places[0]), 1)}"


@attempt("EPERM", control="open_tree_attr came with Linux 6.15")
def tree_opened_with_attributes(facts: Facts) -> str:
    return f"descriptor {call('open_tree_attr', AT_FDCWD, b'/', 0, 0, 0)}"


@attempt("EPERM", control="there is nothing to change")
def mount_attributes_of_nothing(facts: Facts) -> str:
    return f"answered {call('mount_setattr', -1, 0, 0, 0, 0)}"


@attempt("EPERM", control="there is no file to open")
def handle_of_nothing(facts: Facts) -> str:
    return f"answered {call('open_by_handle_at', -1, _bytes(16), 0)}"


@attempt("EPERM", control="there is no namespace to join")
def namespace_of_nothing(facts: Facts) -> str:
    return f"answered {call('setns', -1, 0)}"


@attempt("EPERM", control="there is no descriptor to steal")
def descriptor_of_nothing(facts: Facts) -> str:
    return f"answered {call('pidfd_getfd', -1, 0, 0)}"


ATTEMPTS = collected(globals())
