"""`infra/gates.table`: every profile at a glance, made from the data that is enforced."""

from threegate.sandbox import worker
from threegate.sandbox.profiles import GIB, MIB, PROFILES, Profile

_HEAD = (
    "gate",
    "network",
    "sockets",
    "exec",
    "fork",
    "code",
    "reads",
    "writes",
    "memory",
    "cpu",
    "procs",
    "output",
    "lives",
)


def gates_table() -> str:
    """Return the table; the last row is the worker inside tool-lite."""
    rows = [_HEAD, *map(_row, PROFILES.values()), _worker_row()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _row(profile: Profile) -> tuple[str, ...]:
    ports = ",".join(map(str, profile.connect_ports)) or "policy"
    return (
        profile.name,
        f"host:{ports}" if profile.host_network else "none",
        ",".join(profile.families) or "none",
        ",".join(profile.executables) or "nothing",
        "yes" if profile.processes_may_fork else "no",
        "+".join((profile.new_code, *profile.grants)),
        ",".join(bind.slot for bind in profile.binds) or "stdin",
        _size(profile.scratch_bytes) + " /tmp" if profile.scratch_bytes else "stdout",
        _size(profile.memory_bytes),
        f"{profile.cpu_seconds}s",
        str(profile.processes),
        _size(profile.output_bytes),
        profile.reuse,
    )


def _worker_row() -> tuple[str, ...]:
    calls = f"{len(worker.ALLOWED)} calls"
    limits = (_size(worker.MEMORY_BYTES), f"{worker.CPU_SECONDS}s", "threads")
    return (
        worker.NAME,
        "none",
        "none",
        "nothing",
        "no",
        calls,
        "stdin",
        "stdout",
        *limits,
        "-",
        "one job",
    )


def _size(count: int) -> str:
    if count >= GIB:
        return f"{count // GIB}G"
    return f"{count // MIB}M" if count >= MIB else str(count)
