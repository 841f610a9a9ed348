"""Whether policy lets a command begin, with the line of the rule that does not."""

import pytest

from tests.support.policies import GATES, line_of, policy, policy_files
from threegate.base.errors import PolicyDenied, PolicyInvalid
from threegate.policy.compiler import compile_policy
from threegate.policy.decision import Allow, Deny
from threegate.policy.ring.compiler import COMMAND_REFUSED, may_command, refuse_command

POLICY = policy()
FILE = "tool-exec.policy.md"


def judged(*argv: str) -> Allow | Deny:
    decision = may_command(POLICY, "heavy-shell", "tools", argv)
    assert isinstance(decision, Allow | Deny)
    return decision


def test_a_command_no_rule_refuses_may_begin() -> None:
    assert isinstance(judged("/usr/bin/sort", "-r", "/in/names"), Allow)
    assert isinstance(judged("sort", "-r", "/in/names"), Allow)


@pytest.mark.parametrize(
    ("argv", "text", "reason"),
    [
        (("/usr/bin/sh", "-c", "x"), "allowed_binaries: [/usr/bin/cmp", 'program "/usr/bin/sh"'),
        (("sort", "/in/curl"), 'denied_patterns: ["curl"', 'pattern "curl"'),
        (("diff", "--pag", "a", "b"), "comparing:", 'argument rule comparing refuses "--pag"'),
    ],
)
# claim TG-C-261
def test_a_refusal_names_rule_argument_and_line(
    argv: tuple[str, ...], text: str, reason: str
) -> None:
    decision = judged(*argv)
    assert isinstance(decision, Deny)
    assert decision.rule is not None
    assert decision.rule.line == line_of(policy_files(), FILE, text)
    assert reason in decision.reason
    with pytest.raises(PolicyDenied) as caught:
        refuse_command(POLICY, "heavy-shell", "tools", argv)
    assert (caught.value.code, caught.value.exit_code) == (COMMAND_REFUSED, 77)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"split -n2 --fil sh /in/a"', '"split -n2 /in/a"', "does not refuse its match example"),
        ('not_match: ["split -n 2', 'not_match: ["split --filter=x', "refuses its not_match"),
        ('    not_match: ["split -n 2 /in/a"]\n', "", "has no not_match example"),
        ('"split -n 2 /in/a"', '"split \'open"', "No closing quotation"),
    ],
)
# claim TG-C-262
def test_a_rule_that_does_not_hold_its_own_examples_makes_the_policy_invalid(
    old: str, new: str, words: str
) -> None:
    compile_policy(policy_files(), gates=GATES)  # control
    with pytest.raises(PolicyInvalid) as caught:
        compile_policy(policy_files(tool_exec=(old, new)), gates=GATES)
    assert words in caught.value.message
    assert caught.value.code == "TG-POL-014"
    assert caught.value.message.startswith(f"policy/{FILE}:")
