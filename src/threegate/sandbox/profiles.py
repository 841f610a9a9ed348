"""What each process of ThreeGate may do: one reviewed profile each, as data.

`infra/gates.table` shows them at a glance and golden tests pin the launch arguments made
from them.  Widening one is a security change.
"""

from dataclasses import replace
from typing import Final

from threegate.sandbox.profile_form import GIB, KIB, MIB, Bind, Profile
from threegate.sandbox.reader_profiles import (
    FETCH_HTML,
    FETCH_NORMALIZE,
    FETCH_OFFICE,
    FETCH_PDF,
    IMAGE_READER,
    PAGE_DRAWER,
)
from threegate.sandbox.runsc_profiles import RUNSC_FILES, RUNSC_KERNEL

__all__ = [
    "FETCH_HTML",
    "FETCH_NORMALIZE",
    "FETCH_OFFICE",
    "FETCH_PDF",
    "GIB",
    "IMAGE_READER",
    "KIB",
    "MIB",
    "PAGE_DRAWER",
    "RUNSC_FILES",
    "RUNSC_KERNEL",
    "Bind",
    "Profile",
]

PROXY: Final = Profile(
    name="proxy",
    purpose="resolves, checks and dials allowlisted names for FETCH",
    packages=("gates.fetch", "keys", "policy"),
    libraries=(),
    modules=("asyncio", "ssl"),
    binds=(Bind("resolver", "/etc/resolv.conf", "file"),),  # the rules come over the channel
    devices=(),
    scratch_bytes=0,
    host_network=True,
    families=("inet", "inet6"),  # its listening Unix socket is handed to it
    connect_ports=(53, 443),
    executables=(),
    processes_may_fork=False,
    new_code="none",
    memory_bytes=512 * MIB,
    cpu_seconds=86_400,
    processes=16,
    open_files=1024,
    file_bytes=0,
    output_bytes=64 * MIB,
    stderr_bytes=256 * KIB,
    deadline_seconds=604_800,
    reuse="one start",
)
FETCH_RETRIEVE: Final = Profile(
    name="fetch-retrieve",
    purpose="asks for sources through the proxy's socket",
    packages=("artifacts", "gates.fetch", "gates.http_library", "keys", "policy"),
    libraries=("_cffi_backend", "ada_url", "cryptography", "h11"),
    modules=(
        "ada_url",
        "binascii",
        "cryptography.hazmat.primitives.asymmetric.ed25519",
        "encodings.idna",
        "h11",
        "ssl",
    ),
    binds=(
        Bind("proxy", "/run/proxy.sock", "socket"),
        Bind("certificates", "/etc/ssl/certs/ca-certificates.crt", "file"),
    ),
    devices=(),
    scratch_bytes=0,
    host_network=False,
    families=("unix",),
    connect_ports=(),
    executables=(),
    processes_may_fork=False,
    new_code="none",
    memory_bytes=1 * GIB,
    cpu_seconds=600,
    processes=8,
    open_files=64,
    file_bytes=0,
    output_bytes=256 * MIB,
    stderr_bytes=64 * KIB,
    deadline_seconds=3_600,
    reuse="one session",
)
CORE: Final = Profile(
    name="core",
    purpose="reasons with a model over validated artifacts",
    packages=("gates.core", "gates.model.chat"),
    libraries=(),
    modules=("json", "socket"),
    binds=(Bind("model", "/run/model.sock", "socket"),),  # what it reads comes as a message
    devices=(),
    scratch_bytes=0,
    host_network=False,
    families=("unix",),
    connect_ports=(),
    executables=(),
    processes_may_fork=False,
    new_code="none",
    memory_bytes=2 * GIB,
    cpu_seconds=600,
    processes=8,
    open_files=256,
    file_bytes=0,
    output_bytes=16 * MIB,
    stderr_bytes=64 * KIB,
    deadline_seconds=3600,
    reuse="one job",
)
MODEL_SERVER: Final = Profile(
    name="model-server",
    purpose="generates text for CORE from one model file",
    packages=("gates.model",),
    libraries=("xllamacpp",),
    modules=("_hashlib", "asyncio", "threegate.gates.model.server.llama"),
    binds=(Bind("model-file", "/in/model.gguf", "file"),),
    devices=(),
    scratch_bytes=0,
    host_network=False,
    # The library does not start without a listening socket: one with an abstract name, in a
    # namespace without anybody else.  The one CORE comes to is handed to it.
    families=("unix",),
    connect_ports=(),
    executables=(),
    processes_may_fork=False,
    new_code="none",
    memory_bytes=16 * GIB,
    cpu_seconds=86_400,
    processes=64,
    open_files=256,
    file_bytes=0,
    output_bytes=64 * MIB,
    stderr_bytes=256 * KIB,
    deadline_seconds=604_800,
    reuse="one start",
)
EMBEDDER: Final = Profile(
    name="embedder",
    purpose="computes vectors of excerpts from one model",
    packages=("gates.model",),
    libraries=("numpy",),
    modules=("_hashlib", "json", "unicodedata"),
    binds=(
        Bind("model-file", "/in/embedder.model", "file"),
        Bind("vocabulary", "/in/embedder.vocabulary", "file"),
    ),
    devices=(),
    scratch_bytes=0,
    host_network=False,
    families=(),
    connect_ports=(),
    executables=(),
    processes_may_fork=False,
    new_code="none",
    memory_bytes=1 * GIB,
    cpu_seconds=7_200,
    processes=8,
    open_files=256,
    file_bytes=0,
    output_bytes=16 * MIB,
    stderr_bytes=64 * KIB,
    deadline_seconds=600,
    reuse="one start",
)
BRIDGE: Final = Profile(
    name="bridge",
    purpose="carries CORE's questions to the operator's own model server on loopback",
    packages=("gates.http_library", "gates.model"),
    libraries=("h11",),
    modules=("asyncio", "h11"),
    binds=(),
    devices=(),
    scratch_bytes=0,
    host_network=True,
    families=("inet",),  # its listening Unix socket is handed to it
    connect_ports=(),  # the one port comes from policy, at start
    executables=(),
    processes_may_fork=False,
    new_code="none",
    memory_bytes=512 * MIB,
    cpu_seconds=86_400,
    processes=16,
    open_files=256,
    file_bytes=0,
    output_bytes=64 * MIB,
    stderr_bytes=64 * KIB,
    deadline_seconds=604_800,
    reuse="one start",
)
BRIDGE_SOCKET: Final = replace(
    BRIDGE,
    name="bridge-socket",
    purpose="carries CORE's questions to the operator's own model server on a Unix socket",
    binds=(Bind("server", "/run/server.sock", "socket"),),
    host_network=False,
    families=("unix",),
)
BRIDGE_REMOTE: Final = replace(
    BRIDGE,
    name="bridge-remote",
    purpose="carries CORE's questions to the one remote machine that policy names",
    modules=("asyncio", "encodings.idna", "h11", "ssl"),
    binds=(
        Bind("proxy", "/run/proxy.sock", "socket"),
        Bind("certificates", "/etc/ssl/certs/ca-certificates.crt", "file"),
    ),
    host_network=False,
    families=("unix",),
)
TOOL_LITE: Final = Profile(
    name="tool-lite",
    purpose="checks approvals and runs each request in a Monty worker of its own",
    packages=("artifacts", "gates.tool_exec", "keys", "policy"),
    libraries=("_cffi_backend", "cryptography", "pydantic_monty", "typing_extensions"),
    modules=(
        "binascii",
        "cryptography.hazmat.primitives.asymmetric.ed25519",
        "pydantic_monty",
    ),
    binds=(
        Bind("launcher", "/run/launcher", "file"),
        Bind("lock", "/run/lock.so", "file"),
        Bind("worker", "/run/monty", "file"),
    ),
    devices=("null",),
    scratch_bytes=0,
    host_network=False,
    families=(),
    connect_ports=(),
    executables=("launcher", "worker"),
    processes_may_fork=True,
    new_code="linked",
    memory_bytes=2 * GIB,
    cpu_seconds=600,
    processes=32,
    open_files=128,
    file_bytes=0,
    output_bytes=64 * MIB,
    stderr_bytes=64 * KIB,
    deadline_seconds=900,
    reuse="one session",
)
ENGINE: Final = Profile(
    name="engine",
    purpose="runs one microVM for the heavy lane",
    packages=(),
    libraries=(),
    modules=(),
    # Where QEMU looks for its own parts.  Disks, snapshot and channels come as descriptors.
    binds=(
        Bind("engine", "/usr/bin/qemu-system-x86_64", "file"),
        Bind("accelerator", "/usr/lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so", "file"),
        Bind("firmware", "/usr/share/qemu", "directory"),
        Bind("kernel", "/in/kernel", "file"),
        Bind("initramfs", "/in/initramfs", "file"),
    ),
    devices=("kvm",),
    scratch_bytes=64 * MIB,
    host_network=False,
    families=(),
    connect_ports=(),
    executables=("engine",),
    processes_may_fork=False,
    new_code="any",  # an emulator writes the code it runs
    memory_bytes=16 * GIB,
    cpu_seconds=86_400,
    processes=64,
    open_files=256,
    file_bytes=64 * MIB,
    output_bytes=1 * GIB,
    stderr_bytes=256 * KIB,
    deadline_seconds=90_000,
    reuse="one job",
)
TOOL_HEAVY: Final = Profile(
    name="tool-heavy",
    purpose="checks approvals and drives one microVM from outside",
    packages=("artifacts", "gates.tool_exec", "keys", "policy"),
    libraries=("_cffi_backend", "cryptography"),
    modules=("binascii", "cryptography.hazmat.primitives.asymmetric.ed25519", "select"),
    binds=(),  # the machine's two channels and its inputs come as descriptors
    devices=(),
    scratch_bytes=0,
    host_network=False,
    families=(),
    connect_ports=(),
    executables=(),
    processes_may_fork=False,
    new_code="none",
    memory_bytes=2 * GIB,
    cpu_seconds=3_600,
    processes=8,
    open_files=64,
    file_bytes=0,
    output_bytes=512 * MIB,
    stderr_bytes=64 * KIB,
    deadline_seconds=90_000,  # a day, which a run may take, and the time around it
    reuse="one job",
)
GATEWAY: Final = replace(
    BRIDGE_REMOTE,
    name="run-gateway",
    purpose="asks the hosts that one approved run lists, through the proxy's socket",
    packages=("gates.run_gateway", "gates.http_library", "policy"),
    modules=("_blake2", "encodings.idna", "h11", "ssl"),
    memory_bytes=1 * GIB,
    cpu_seconds=3_600,
    processes=8,
    open_files=64,
    deadline_seconds=90_000,  # as long as a run
    reuse="one job",
)

RUN_PROXY: Final = replace(
    PROXY,
    name="run-proxy",  # the kernel holds this uid to the addresses of one run
    purpose="dials for one run whose hosts the kernel holds it to",
    deadline_seconds=90_000,
    reuse="one job",
)

PROFILES: Final = {
    item.name: item
    for item in (
        PROXY,
        FETCH_RETRIEVE,
        FETCH_NORMALIZE,
        FETCH_HTML,
        FETCH_PDF,
        CORE,
        MODEL_SERVER,
        EMBEDDER,
        BRIDGE,
        TOOL_LITE,
        ENGINE,
        BRIDGE_SOCKET,  # the place in this list is the uid a gate gets from root: add at the end
        BRIDGE_REMOTE,
        TOOL_HEAVY,
        IMAGE_READER,
        RUNSC_KERNEL,
        RUNSC_FILES,
        GATEWAY,
        RUN_PROXY,
        PAGE_DRAWER,
        FETCH_OFFICE,
    )
}
