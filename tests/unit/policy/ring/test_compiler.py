"""The ring's compiler: one pure function per kind of executor, closed where it cannot enforce."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.policies import GATES, altered, line_of, plain_sections, policy, policy_files
from threegate.base.errors import PolicyInvalid
from threegate.base.message_shapes import SortedRecord
from threegate.policy.bundle import Compiled, parse_bundle
from threegate.policy.compiler import compile_policy
from threegate.policy.decision import Allow, Deny
from threegate.policy.nodes import frozen
from threegate.policy.ring.compiler import (
    COMMAND_INTERPRETERS,
    EXECUTORS,
    NOT_ENFORCEABLE,
    NOT_PROVED,
    UNKNOWN_EXECUTOR,
    Abilities,
    NoOp,
    ProfileRejected,
    compile_no_op,
    compile_ring,
    executor_of,
    may_enforce,
    runtime_of,
)
from threegate.policy.ring.executor_profile import FIELDS, ExecutorProfile

POLICY = policy()
FILE = "policy/tool-exec.policy.md"
PYTHON = "python"


def with_rules(name: str, **rules: Any) -> Compiled:
    def change(sections: dict[str, Any]) -> None:
        sections["tool-exec"]["interpreter_ring"][name].update(rules)

    return altered(POLICY, change)


def rejected(policy_: Compiled, kind: str, name: str, **more: Any) -> ProfileRejected:
    with pytest.raises(ProfileRejected) as caught:
        compile_ring(policy_, kind, name, **more)
    return caught.value


def test_every_shipped_profile_has_an_executor_that_enforces_it() -> None:
    assert compile_ring(POLICY, "monty", "pure").imports[0] == "base64"
    ring = compile_ring(POLICY, "heavy-python", "python")
    assert ring.refusal("numpy") is None
    assert (ring.refusal("requests"), ring.refusal("ssl")) == ("denied_imports",) * 2
    assert ring.refusal("antigravity") == "allowed_imports"
    shell = compile_ring(POLICY, "heavy-shell", "tools")
    assert "/usr/bin/sort" in shell.binaries
    assert shell.patterns == ("curl", "rm -rf", "sort --compress-program", "wget")


def test_a_profile_carries_file_and_line_of_every_rule_that_can_refuse() -> None:
    ring = compile_ring(POLICY, "heavy-python", "python")
    text = policy_files()["tool-exec.policy.md"].decode().split("\n")
    for rule, item in (("denied_imports", "requests"), ("denied_imports", "urllib3")):
        line = int(ring.place(rule, item).removeprefix(f"{FILE}:"))
        assert item in text[line - 1]
    line = int(ring.place("allowed_imports", "antigravity").removeprefix(f"{FILE}:"))
    assert text[line - 1].strip().startswith("allowed_imports: [argparse")


def test_denied_wins_over_allowed() -> None:
    ring = compile_ring(with_rules(PYTHON, denied_imports=["numpy"]), "heavy-python", PYTHON)
    assert "numpy" not in ring.imports
    assert ring.refusal("numpy") == "denied_imports"


def test_empty_lists_mean_none() -> None:
    nothing = with_rules(PYTHON, allowed_imports=[], denied_imports=[])
    ring = compile_ring(nothing, "heavy-python", PYTHON)
    assert (ring.imports, ring.refusal("sys")) == ((), "allowed_imports")


@pytest.mark.parametrize("field", FIELDS)
# claim TG-C-245
def test_an_absent_rule_is_an_error_with_file_and_line(field: str) -> None:
    files = policy_files()
    compile_policy(files, gates=GATES)  # control: it is there
    lines = files["tool-exec.policy.md"].decode().split("\n")
    start = line_of(files, "tool-exec.policy.md", "tools:")
    at = next(n for n in range(start, len(lines)) if lines[n].strip().startswith(f"{field}:"))
    end = at + 1
    while lines[end - 1].rstrip()[-1] == ",":
        end += 1
    files["tool-exec.policy.md"] = "\n".join(lines[:at] + lines[end:]).encode()
    with pytest.raises(PolicyInvalid) as caught:
        compile_policy(files, gates=GATES)
    assert caught.value.message == f"{FILE}:{start}: tools: key {field} is missing"


# claim TG-C-245
def test_what_an_executor_cannot_enforce_is_rejected_with_the_rule() -> None:
    net = altered(POLICY, _with_network)
    for field, kind, name, found, reason in (
        ("executor_network", "heavy-shell", "net", net, "has no network gateway"),
        ("denied_patterns", "heavy-python", "tools", POLICY, "does not see the commands"),
    ):
        exc = rejected(found, kind, name)
        assert (exc.code, reason in exc.reason) == (NOT_ENFORCEABLE, True), exc
        assert exc.rule == found.ref("tool-exec", "interpreter_ring", name, field)
        assert str(exc.rule) in exc.message
    python = with_rules(PYTHON, allowed_binaries=["/usr/bin/python3"])
    for kind in ("heavy-python", "heavy-shell"):
        exc = rejected(python, kind, PYTHON)
        assert exc.reason == f"profile python: {kind} cannot hold the imports of /usr/bin/python3"
    fine = with_rules(PYTHON, allowed_binaries=["/usr/bin/sort"])
    assert compile_ring(fine, "heavy-python", PYTHON).binaries == ("/usr/bin/sort",), "control"


def _with_network(sections: dict[str, Any]) -> None:
    tool = sections["tool-exec"]
    tool["lanes"]["era"] |= {"network": "gateway", "profiles": ["net", "python", "tools"]}
    tool["interpreter_ring"]["net"] = {
        **tool["interpreter_ring"]["python"],
        "executor_network": "gateway",
    }


def test_an_executor_gets_a_network_by_declaring_it_and_never_more_than_its_lane() -> None:
    networks = frozenset(("off", "gateway"))
    declared = Abilities("era", imports=True, files=True, networks=networks)
    able = {**EXECUTORS, "heavy-python": declared}
    net = altered(POLICY, _with_network)
    assert compile_ring(net, "heavy-python", "net", executors=able).network == "gateway"
    lane_off = altered(net, lambda s: s["tool-exec"]["lanes"]["era"].update(network="off"))
    exc = rejected(lane_off, "heavy-python", "net", executors=able)
    assert exc.reason == "profile net: network gateway is more than its lane's off"
    assert runtime_of(POLICY, "era").network == "off", "the default policy forbids it"


@pytest.mark.parametrize("network", ["gateway", "kernel-allowlist"])
# claim TG-C-246
def test_monty_refuses_every_network_and_every_program(network: str) -> None:
    # The policy itself is refused when it is read; this is the compiler alone, given such rules.
    files = policy_files()
    assert compile_ring(compile_policy(files, gates=GATES), "monty", "pure").network == "off"
    loose = _unchecked("pure", executor_network=network)
    exc = rejected(loose, "monty", "pure")
    assert exc.reason.startswith(f"profile pure: monty has no network {network}")
    exc = rejected(_unchecked("pure", allowed_binaries=["/usr/bin/sort"]), "monty", "pure")
    assert exc.reason == "profile pure: monty starts no programs"


def _unchecked(name: str, **rules: Any) -> Compiled:
    """Return a policy that no reader would let through."""
    sections = plain_sections(POLICY)
    sections["tool-exec"]["interpreter_ring"][name].update(rules)
    return Compiled({key: frozen(value) for key, value in sections.items()}, POLICY.refs)


# claim TG-C-246
def test_an_unknown_executor_and_an_unoffered_profile_are_rejected() -> None:
    for kind in ("perl", "", "heavy", "embedder"):
        assert rejected(POLICY, kind, PYTHON).code == UNKNOWN_EXECUTOR
    assert compile_ring(POLICY, "heavy-python", PYTHON).profile == PYTHON, "control"
    exc = rejected(POLICY, "monty", PYTHON)
    assert exc.rule == POLICY.ref("tool-exec", "lanes", "monty", "profiles")


# claim TG-C-246
def test_a_no_op_is_only_for_what_proved_that_it_starts_nothing() -> None:
    proofs = frozenset(("exec", "fork", "socket:2"))
    assert compile_no_op("embedder", proofs) == NoOp("embedder", ("exec", "fork"))
    for less in (frozenset[str](), frozenset(("exec",)), frozenset(("fork", "socket:2"))):
        with pytest.raises(ProfileRejected) as caught:
            compile_no_op("embedder", less)
        assert caught.value.code == NOT_PROVED
    for kind in ("perl", "heavy-python", "monty"):
        with pytest.raises(ProfileRejected) as caught:
            compile_no_op(kind, proofs)
        assert caught.value.code == UNKNOWN_EXECUTOR
    vacuous = {"x": Abilities(None, code_mode=False)}
    with pytest.raises(ProfileRejected):
        compile_no_op("x", proofs, executors=vacuous)


def test_a_code_mode_comes_with_a_declaration() -> None:
    able = {**EXECUTORS, "embedder": Abilities("era", imports=True, files=True, binaries=True)}
    assert compile_ring(POLICY, "embedder", PYTHON, executors=able).kind == "embedder"


def test_lines_may_move_without_another_profile_in_force() -> None:
    moved = policy(tool_exec=("# The heavy lane's Python", "\n  # The heavy lane's Python"))
    old, new = (compile_ring(p, "heavy-python", PYTHON) for p in (POLICY, moved))
    assert old.digest == new.digest
    assert old.rules != new.rules


def test_host_and_gate_compile_the_same_from_the_bundle() -> None:
    ring = compile_ring(POLICY, "heavy-python", PYTHON)
    again = compile_ring(parse_bundle(POLICY.bundle().bundle_bytes()), "heavy-python", PYTHON)
    assert ring == again
    assert SortedRecord(ExecutorProfile).build(ring.plain()) == ring


def test_the_decision_says_what_the_error_says() -> None:
    assert isinstance(may_enforce(POLICY, "heavy-python", PYTHON), Allow)
    found = may_enforce(POLICY, "heavy-python", "tools")
    assert isinstance(found, Deny)
    assert found.rule == POLICY.ref("tool-exec", "interpreter_ring", "tools", "denied_patterns")
    assert isinstance(may_enforce(POLICY, "perl", "pure"), Deny)
    assert isinstance(may_enforce(POLICY, "monty", "ghost"), Deny)


def test_which_executor_runs_a_request() -> None:
    assert executor_of("monty", command=False) == "monty"
    assert executor_of("era", command=False) == "heavy-python"
    assert executor_of("era", command=True) == "heavy-shell"


def test_host_and_gate_compile_the_same_argument_rules() -> None:
    both = ["/usr/bin/find", "/usr/bin/mawk", "/usr/bin/sed", "/usr/bin/sort"]
    written = with_rules("tools", allowed_binaries=both)
    ring = compile_ring(written, "heavy-shell", "tools")
    stored = compile_ring(parse_bundle(written.bundle().bundle_bytes()), "heavy-shell", "tools")
    assert [rule.name for rule in ring.arguments] == ["awk", "find", "sed", "sorting"]
    assert ring.arguments[0].programs == ("mawk",), "only what is said of its own programs"
    assert (stored.digest, stored.arguments) == (ring.digest, ring.arguments)
    assert SortedRecord(ExecutorProfile).build(ring.plain()) == ring


@pytest.mark.parametrize(
    "shell",
    [
        *("/usr/bin/dash", "/usr/bin/perl", "/bin/busybox", "/usr/bin/lua5.4", "/usr/bin/tclsh8.6"),
        *("/usr/bin/perl5.36.0", "/usr/bin/vim.basic", "/usr/bin/vim.tiny", "/usr/bin/ruby3.1"),
        *("/usr/bin/php8.2", "/usr/bin/bash-static", "/usr/bin/perl5.36-x86_64-linux-gnu"),
    ],
)
# claim TG-C-261
def test_an_interpreter_of_commands_beside_denied_patterns_is_rejected(shell: str) -> None:
    free = with_rules("tools", allowed_binaries=[shell], denied_patterns=[])
    assert compile_ring(free, "heavy-shell", "tools").binaries == (shell,), "control"
    exc = rejected(with_rules("tools", allowed_binaries=[shell]), "heavy-shell", "tools")
    assert "runs commands that no denied pattern sees" in exc.reason
    assert exc.rule is not None
    assert exc.rule.path == FILE


def test_a_program_with_nearly_the_name_of_an_interpreter_is_another_one() -> None:
    near = ["/usr/bin/editcap", "/usr/bin/envsubst", "/usr/bin/sha256sum", "/usr/bin/shuf"]
    ring = compile_ring(with_rules("tools", allowed_binaries=near), "heavy-shell", "tools")
    assert (ring.binaries, ring.arguments) == (tuple(near), ())


def test_argument_rules_speak_of_programs_in_every_version() -> None:
    several = ["/usr/bin/gawk-5.2.1", "/usr/bin/sort", "/usr/bin/tar-1.34"]
    ring = compile_ring(with_rules("tools", allowed_binaries=several), "heavy-shell", "tools")
    about = {rule.name: rule.programs for rule in ring.arguments}
    assert about == {"archives": ("tar-1.34",), "awk": ("gawk-5.2.1",), "sorting": ("sort",)}
    found = ring.command(["tar-1.34", "cvvvvvvvvvvvvvvvvvvIf", "sh", "/out/a"])
    assert found is not None
    assert (found.rule, found.item) == ("argument_rules", "archives")
    assert ring.command(["tar-1.34", "cf", "/out/a", "/in/a"]) is None, "control"


def test_what_runs_commands_of_its_own_is_also_judged_by_its_words() -> None:
    lists = (POLICY.words("tool-exec", "argument_rules", name, "programs") for name in _ALL)
    assert set().union(*lists) >= COMMAND_INTERPRETERS


_ALL = ("interpreters", "launchers")


@pytest.mark.parametrize(
    ("programs", "reason"),
    [
        ("/usr/bin/python3.11", "heavy-shell cannot hold the imports of /usr/bin/python3.11"),
        ("/usr/bin/vim.tiny", "/usr/bin/vim.tiny runs commands that no denied pattern sees"),
    ],
)
# claim TG-C-245
def test_a_profile_that_no_executor_of_its_lane_can_enforce_makes_the_policy_invalid(
    programs: str, reason: str
) -> None:
    usual = "allowed_binaries: [/usr/bin/cmp, "
    policy(tool_exec=(usual, "allowed_binaries: [/usr/bin/cat, "))  # control
    files = policy_files()
    at = line_of(files, "tool-exec.policy.md", usual)
    with pytest.raises(PolicyInvalid) as caught:
        policy(tool_exec=(usual, f"allowed_binaries: [{programs}, "))
    assert caught.value.message == f"{FILE}:{at}: profile tools: {reason}"


def test_a_network_this_machine_has_not_is_no_error_of_the_policy() -> None:
    written = "    executor_network: off\n    allowed_binaries: [/usr/bin/cmp"
    found = policy(tool_exec=(written, written.replace("off", "kernel-allowlist")))
    assert isinstance(may_enforce(found, "heavy-shell", "tools"), Deny), "where it would be used"


# claim TG-C-245
def test_an_executor_enforces_only_what_it_declares() -> None:
    full = Abilities("era", imports=True, files=True, binaries=True, patterns=True)
    able = {"new": full}
    for name in (PYTHON, "tools"):
        assert compile_ring(POLICY, "new", name, executors=able).kind == "new", "control"
    for less, field, reason in (
        (replace(full, imports=False), "allowed_imports", "new does not refuse imports"),
        (replace(full, binaries=False), "allowed_binaries", "new starts no programs"),
        (
            replace(full, patterns=False),
            "denied_patterns",
            "new does not see the commands of its code",
        ),
    ):
        exc = rejected(POLICY, "new", "tools", executors={"new": less})
        assert exc.reason == f"profile tools: {reason}"
        assert exc.rule == POLICY.ref("tool-exec", "interpreter_ring", "tools", field)
    exc = rejected(POLICY, "new", "tools", executors={"new": replace(full, files=False)})
    assert exc.reason == "profile tools: new has no files to write, and its lane grants them"
    assert exc.rule == POLICY.ref("tool-exec", "lanes", "era", "max", "disk_bytes")
    assert runtime_of(POLICY, "monty").disk_bytes == 0, "and so Monty needs none"


def test_a_profile_for_code_and_for_commands_has_no_program_that_could_import() -> None:
    both = with_rules(PYTHON, allowed_binaries=["/usr/bin/sort"])
    for kind in ("heavy-python", "heavy-shell"):
        assert compile_ring(both, kind, PYTHON).binaries == ("/usr/bin/sort",)
    for program in ("/usr/bin/python3.11", "/usr/bin/pypy3", "/usr/bin/ipython3"):
        exc = rejected(with_rules(PYTHON, allowed_binaries=[program]), "heavy-shell", PYTHON)
        assert exc.reason.endswith(f"cannot hold the imports of {program}")
