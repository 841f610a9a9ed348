"""What is allowed: policy files in, decisions out.

Source text (`source`) becomes untyped nodes (`nodes`), the schema of each section
(`sections`, built from `schema` and `leaves`) turns them into one canonical value with
line numbers, and `bundle` keeps both.  `decide` answers questions from a bundle, `diff`
says what another one would widen.  Only `compiler.load_policy` opens files.
"""

from threegate.policy.bundle import Bundle, Compiled, parse_bundle
from threegate.policy.change import Change
from threegate.policy.compiler import compile_policy, default_files, load_policy
from threegate.policy.decide import (
    Execution,
    effective_limits,
    may_connect,
    may_draft,
    may_execute,
    may_fetch,
    may_read,
    may_use_engine,
)
from threegate.policy.decision import Allow, Ask, Decision, Deny, RuleRef, Tried, verdict
from threegate.policy.diff import diff
from threegate.policy.explain import explain
from threegate.policy.fields import field_table, reason_table
from threegate.policy.sections import FILES, SECTION_NAMES

__all__ = [
    "FILES",
    "SECTION_NAMES",
    "Allow",
    "Ask",
    "Bundle",
    "Change",
    "Compiled",
    "Decision",
    "Deny",
    "Execution",
    "RuleRef",
    "Tried",
    "compile_policy",
    "default_files",
    "diff",
    "effective_limits",
    "explain",
    "field_table",
    "load_policy",
    "may_connect",
    "may_draft",
    "may_execute",
    "may_fetch",
    "may_read",
    "may_use_engine",
    "parse_bundle",
    "reason_table",
    "verdict",
]
