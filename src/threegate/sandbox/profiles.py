"""What each process of ThreeGate may do: one reviewed profile each, as data.

`infra/gates.table` shows them at a glance and golden tests pin the launch arguments made
from them.  Widening one is a security change.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from threegate import canonical

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

NewCode = Literal["none", "linked", "any"]


@dataclass(frozen=True, slots=True)
class Bind:
    """A place in the box for something of the host, given at start."""

    slot: str
    inside: str
    kind: Literal["file", "directory", "socket"]


@dataclass(frozen=True, slots=True)
class Profile:
    """One process: what it sees, what it may do, how much of it."""

    name: str
    purpose: str
    packages: tuple[str, ...]  # parts of threegate in view, besides the common base
    libraries: tuple[str, ...]  # installed packages in view; nothing else of site-packages
    modules: tuple[str, ...]  # imported before the lock: nothing native can be loaded later
    binds: tuple[Bind, ...]  # read-only places
    devices: tuple[str, ...]
    scratch_bytes: int  # size of a private /tmp that dies with the process; 0: none
    host_network: bool
    families: tuple[str, ...]  # socket families it may open
    connect_ports: tuple[int, ...]  # TCP, only with host_network
    executables: tuple[str, ...]  # slots it may execute; empty: nothing at all
    processes_may_fork: bool
    new_code: NewCode
    memory_bytes: int
    cpu_seconds: int
    processes: int
    open_files: int
    file_bytes: int  # largest file it may write, in its own /tmp
    output_bytes: int
    stderr_bytes: int
    deadline_seconds: int
    # The most one process serves: one job; jobs of one confidentiality under one policy, one
    # after the other (`session`); or whoever comes while the host's supervisor lives.
    reuse: Literal["one job", "one session", "one start"]

    def plain(self) -> dict[str, Any]:
        """Return the profile as plain data."""
        value: dict[str, Any] = _listed(asdict(self))
        return value

    def to_bytes(self) -> bytes:
        """Return the one spelling of the profile; its digest goes into every result."""
        return canonical.encode(self.plain())


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, (list, tuple)) else value


PROXY: Final = Profile(
    name="proxy",
    purpose="resolves, checks and dials allowlisted names for FETCH",
    packages=("fetch", "keys", "policy", "protocol"),
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
    packages=("artifacts", "fetch", "https", "keys", "policy", "protocol"),
    libraries=("_cffi_backend", "ada_url", "cryptography"),
    modules=(
        "ada_url",
        "binascii",
        "cryptography.hazmat.primitives.asymmetric.ed25519",
        "encodings.idna",
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
FETCH_NORMALIZE: Final = Profile(
    name="fetch-normalize",
    purpose="turns hostile bytes into one research packet",
    packages=("artifacts", "fetch", "protocol"),
    libraries=(),
    modules=("pyexpat", "unicodedata"),
    binds=(),
    devices=(),
    scratch_bytes=0,
    host_network=False,
    families=(),
    connect_ports=(),
    executables=(),
    processes_may_fork=False,
    new_code="none",
    memory_bytes=2 * GIB,
    cpu_seconds=120,
    processes=8,
    open_files=64,
    file_bytes=0,
    output_bytes=16 * MIB,
    stderr_bytes=64 * KIB,
    deadline_seconds=180,
    reuse="one job",
)
FETCH_HTML: Final = replace(
    FETCH_NORMALIZE,
    name="fetch-html",
    purpose="turns a hostile page into one research packet",
    libraries=("lxml", "selectolax", "trafilatura"),
    modules=(*FETCH_NORMALIZE.modules, "zlib", "lxml.etree", "selectolax.lexbor"),
    cpu_seconds=30,
    deadline_seconds=60,
)
FETCH_PDF: Final = replace(
    FETCH_NORMALIZE,
    name="fetch-pdf",
    purpose="turns a hostile PDF into one research packet",
    libraries=("pypdfium2_raw",),
    modules=(*FETCH_NORMALIZE.modules, "zlib", "pypdfium2_raw.bindings"),
    memory_bytes=1 * GIB,
    cpu_seconds=30,
    deadline_seconds=60,
)
CORE: Final = Profile(
    name="core",
    purpose="reasons with a model over validated artifacts",
    packages=("core", "protocol"),
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
    packages=("model", "protocol"),
    libraries=("xllamacpp",),
    modules=("_hashlib", "asyncio", "threegate.model.server.llama"),
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
    packages=("model", "protocol"),
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
    packages=("model", "protocol"),
    libraries=(),
    modules=("asyncio",),
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
    packages=("https", "model", "protocol"),
    modules=("asyncio", "encodings.idna", "ssl"),
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
    packages=("artifacts", "keys", "policy", "protocol", "tool_exec"),
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
    binds=(
        Bind("engine", "/run/engine", "file"),
        Bind("image", "/in/image", "file"),
        Bind("kernel", "/in/kernel", "file"),
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
    deadline_seconds=86_400,
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
    )
}
