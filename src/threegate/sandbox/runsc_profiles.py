"""What the two parts of a user-space kernel may do: kernel and files of one guest each.

Reviewed and pinned like the rest of `profiles.py`, which lists them.
"""

from dataclasses import replace
from typing import Final

from threegate.sandbox.profile_form import GIB, KIB, MIB, Bind, Profile

RUNSC_KERNEL: Final = Profile(
    name="runsc-kernel",
    purpose="is the user-space kernel of one guest for the heavy lane; no microVM",
    packages=(),
    libraries=(),
    modules=(),
    # Files come from `runsc-files` over a channel; all channels come as descriptors.
    binds=(
        Bind("engine", "/usr/bin/runsc", "file"),
        Bind("lowest-address", "/proc/sys/vm/mmap_min_addr", "file"),
    ),
    devices=(),
    scratch_bytes=0,
    host_network=False,
    families=(),
    connect_ports=(),
    executables=("engine",),
    processes_may_fork=True,  # each process of the guest is one that it traces
    new_code="any",
    memory_bytes=20 * GIB,
    cpu_seconds=86_400,
    processes=2048,
    open_files=1024,
    file_bytes=16 * GIB,  # the guest's memory is a file without a name
    output_bytes=1 * MIB,
    stderr_bytes=256 * KIB,
    deadline_seconds=90_000,
    reuse="one job",
    grants=("memfd", "ptrace"),
)
RUNSC_FILES: Final = replace(
    RUNSC_KERNEL,
    name="runsc-files",
    purpose="shows one guest of the user-space kernel the files of its image",
    binds=(
        Bind("engine", "/usr/bin/runsc", "file"),
        Bind("image", "/image", "directory"),
    ),
    processes_may_fork=False,
    new_code="none",
    memory_bytes=4 * GIB,
    processes=64,
    open_files=4096,  # the kernel keeps a thousand at hand, besides those its guest has open
    file_bytes=64 * MIB,
    grants=("chroot", "memfd", "proc", "seqpacket"),
)
