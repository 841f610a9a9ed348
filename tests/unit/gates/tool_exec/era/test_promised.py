"""What a guest must say of itself before it gets a job."""

from dataclasses import replace

import pytest

from threegate.gates.tool_exec.era.guest_messages import GuestFacts
from threegate.gates.tool_exec.era.messages import PROBES, GuestShape
from threegate.gates.tool_exec.era.promised import kept
from threegate.host.run.heavy.lane import NOTHING

SHAPE = GuestShape(1, 2**28)
FACTS = GuestFacts(
    1,
    0,
    (("lo", False),),
    200_000,
    (("/", "rootfs", "rw"), ("/", "overlay", "ro"), ("/out", "tmpfs", "rw")),
    resolver=False,
    ring=NOTHING.digest,
    ring_proved=("exec", "imports", "offline", "socket", "view"),
    routes=0,
)

IN_USER_SPACE = replace(
    FACTS,
    interfaces=(("lo", True),),
    mounts=(("/", "9p", "ro"), ("/dev", "tmpfs", "rw"), ("/proc", "proc", "rw")),
)


def test_a_guest_as_promised_gets_all_names() -> None:
    process, shell = GuestShape(1, 2**28, "process"), replace(NOTHING, kind="heavy-shell")
    named = kept(FACTS, SHAPE, NOTHING), kept(IN_USER_SPACE, process, NOTHING)
    proofs = ("commands", "exec", "offline", "programs", "socket")
    commands = kept(replace(FACTS, ring=shell.digest, ring_proved=proofs), SHAPE, shell)
    assert {*named[0], *named[1], *commands} == {*PROBES}, "all that may be said of a guest"
    of_commands = {"guest-ring-commands", "guest-ring-programs"}
    assert {*PROBES} - {*named[0]} - of_commands == {"guest-only-its-image"}
    assert {*PROBES} - {*named[1]} - of_commands == {"guest-no-shared-folder"}
    assert {*named[0]} - {*commands} == {"guest-ring-imports", "guest-ring-view"}
    assert kept(replace(FACTS, interfaces=()), SHAPE, NOTHING), "no interface at all is as good"


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"cpus": 2}, "guest-cpus"),
        ({"environment": 1}, "guest-empty-environment"),
        ({"memory_kib": 2**18 + 1}, "guest-memory"),
        ({"memory_kib": 2**16}, "guest-memory"),
        ({"interfaces": (("lo", True),)}, "guest-no-network"),
        ({"interfaces": (("eth0", False),)}, "guest-no-network"),
        ({"resolver": True}, "guest-no-resolver"),
        ({"routes": 1}, "guest-no-route"),
        ({"mounts": (*FACTS.mounts, ("/host", "9p", "rw"))}, "guest-no-shared-folder"),
        ({"mounts": (*FACTS.mounts, ("/host", "virtiofs", "ro"))}, "guest-no-shared-folder"),
        ({"mounts": (("/", "overlay", "rw"),)}, "guest-root-read-only"),
        ({"mounts": ()}, "guest-root-read-only"),
        ({"ring": "0" * 64}, "guest-ring-applied"),
        ({"ring_proved": ()}, "guest-ring-exec"),
        ({"ring_proved": ("exec", "socket", "view")}, "guest-ring-imports"),
        ({"ring_proved": ("exec", "imports", "offline", "socket")}, "guest-ring-view"),
        ({"ring_proved": ("exec", "imports", "socket", "view")}, "guest-ring-offline"),
        ({"ring_proved": ("exec", "imports", "offline", "view")}, "guest-ring-socket"),
    ],
)
def test_one_broken_promise_is_named(change: dict[str, object], broken: str) -> None:
    with pytest.raises(ValueError, match=broken):
        kept(replace(FACTS, **change), SHAPE, NOTHING)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"interfaces": (("eth0", True),)}, "guest-no-network"),
        ({"mounts": (*IN_USER_SPACE.mounts, ("/host", "9p", "ro"))}, "guest-only-its-image"),
        ({"mounts": (("/", "9p", "rw"),)}, "guest-root-read-only"),
        ({"mounts": (("/", "overlay", "ro"),)}, "guest-only-its-image"),
    ],
)
def test_a_guest_of_a_user_space_kernel_has_its_image_and_no_other_folder(
    change: dict[str, object], broken: str
) -> None:
    with pytest.raises(ValueError, match=broken):
        kept(replace(IN_USER_SPACE, **change), GuestShape(1, 2**28, "process"), NOTHING)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="guest-no"):
        kept(IN_USER_SPACE, SHAPE, NOTHING)  # it would not do for a machine


OF_COMMANDS = ("commands", "exec", "offline", "programs", "socket")


@pytest.mark.parametrize("missing", OF_COMMANDS)
# claim TG-C-264
def test_an_executor_of_commands_proves_all_of_it(missing: str) -> None:
    shell = replace(NOTHING, kind="heavy-shell")
    proofs = tuple(name for name in OF_COMMANDS if name != missing)
    with pytest.raises(ValueError, match=f"guest-ring-{missing}"):
        kept(replace(FACTS, ring=shell.digest, ring_proved=proofs), SHAPE, shell)


# claim TG-C-264
def test_code_that_may_start_programs_needs_them_compared_like_commands() -> None:
    ring = replace(NOTHING, binaries=("/usr/bin/sort",))
    facts = replace(FACTS, ring=ring.digest)
    with pytest.raises(ValueError, match="guest-ring-programs"):
        kept(facts, SHAPE, ring)
    proved = (*FACTS.ring_proved, "programs")
    assert "guest-ring-programs" in kept(replace(facts, ring_proved=proved), SHAPE, ring)
    assert "guest-ring-programs" not in kept(FACTS, SHAPE, NOTHING), "control: without programs"
