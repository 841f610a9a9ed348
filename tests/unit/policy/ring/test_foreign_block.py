"""A ring from elsewhere: typed as strictly as our own, and never wider by itself."""

import pytest

from tests.support.policies import GATES, policy_files
from threegate.base.errors import PolicyInvalid
from threegate.policy.compiler import compile_policy
from threegate.policy.ring.compiler import ProfileRejected, compile_ring
from threegate.policy.ring.proposals import import_ring, import_text

FOREIGN = b"""\
interpreter_ring:
  allowed_imports: [pandas, numpy]
  denied_imports: [requests, urllib3]
  executor_network: tappass-only
  allowed_binaries: [/usr/bin/git]
  denied_patterns: ["rm -rf", "curl"]
"""


def test_tappass_only_becomes_gateway() -> None:
    assert import_ring("their.yaml", FOREIGN)["executor_network"] == "gateway"


def added(text: str) -> dict[str, bytes]:
    files = policy_files()
    name = "tool-exec.policy.md"
    old = files[name].decode()
    new = old.replace("\ninterpreter_ring:\n", f"\ninterpreter_ring:\n{text}\n")
    new = new.replace("profiles: [python, tools]", "profiles: [python, theirs, tools]")
    return {**files, name: new.encode()}


# claim TG-C-245
def test_an_imported_gateway_is_refused_by_the_default_policy() -> None:
    text = import_text("their.yaml", FOREIGN, "theirs")
    found = compile_policy(added(text), gates=GATES)
    assert found.words("tool-exec", "interpreter_ring", "theirs", "denied_patterns") == (
        "curl",
        "rm -rf",
    )
    for kind in ("heavy-python", "heavy-shell"):
        with pytest.raises(ProfileRejected) as caught:
            compile_ring(found, kind, "theirs")
        rule = found.ref("tool-exec", "interpreter_ring", "theirs", "executor_network")
        assert caught.value.rule == rule
    off = text.replace("executor_network: gateway", "executor_network: off")
    control = compile_policy(added(off), gates=GATES)
    assert compile_ring(control, "heavy-shell", "theirs").binaries == ("/usr/bin/git",)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (b"  denied_imports: [requests, urllib3]\n", b"", "their.yaml:1: interpreter_ring: key d"),
        (b"tappass-only", b"everything", "their.yaml:4: executor_network"),
        (b"[pandas, numpy]", b"[pandas.io]", "their.yaml:2: allowed_imports"),
        (b"[/usr/bin/git]", b"[git]", "their.yaml:5: allowed_binaries"),
        (b"interpreter_ring:", b"ring:", "their.yaml:1: expected the one key"),
        (b"  denied_p", b"  more: 1\n  denied_p", "their.yaml:6: "),
        (b'"curl"]', b'"curl\xe2\x80\xae"]', "their.yaml:6: "),
    ],
)
def test_a_foreign_ring_is_typed_as_our_own(old: bytes, new: bytes, error: str) -> None:
    import_ring("their.yaml", FOREIGN)  # control
    with pytest.raises(PolicyInvalid) as caught:
        import_ring("their.yaml", FOREIGN.replace(old, new))
    assert caught.value.message.startswith(error), caught.value.message
