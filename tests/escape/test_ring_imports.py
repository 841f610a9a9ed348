"""Attacks on the import rules of the ring, in a real guest: ways around them, and what is left.

Each way obtains something that the profile denies and uses it.  The control is the same guest
with the ring taken out: there every way works.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.support import ring
from tests.support.heavy import (
    ENABLED,
    Task,
    asked_for,
    lab,
    lab_of,
    request_for,
    runsc_lab,
)
from tests.support.policies import altered, policy
from tests.support.ring import MECHANISMS, attempt, bypasses, lab_lacking, lab_with
from threegate.base.errors import GateUnavailable
from threegate.gates.tool_exec.era.messages import NOT_AS_PROMISED
from threegate.host.run.heavy.backend import EMULATION
from threegate.host.run.heavy.lane import want_of
from threegate.host.run.heavy.runsc import RUNSC
from threegate.policy.bundle import Bundle

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence" / "ring-imports.md"
BY = "policy/tool-exec.policy.md:"
NOT_PROMISED = "the guest is not what was promised: "
AMONG = "the loader with a program among the libraries"


# claim TG-C-247
def test_no_way_around_the_import_rules_gets_what_it_is_for() -> None:
    without, within = attempt(lab_with()), attempt(lab())
    assert len(without) == len(bypasses()) >= 60
    assert {state for state, _ in without.values()} == {"done"}, f"control: {without}"
    assert {state for state, _ in within.values()} == {"refused", "harmless"}, within
    for name, rule in (("import", "denied_imports"), ("native _socket", "allowed_imports")):
        assert f"by {BY}" in within[name][1]
        assert f"({rule} of profile python)" in within[name][1]
    reasons = {name: why for name, (_, why) in within.items()}
    assert "No module named 'socket'" in reasons["the hook taken out"], "by the view"
    assert reasons["built-in importer"].startswith("PermissionError"), "by the kernel"
    assert reasons["os itself"].startswith("PermissionError"), "by the kernel"
    assert "no program is among the libraries" in reasons[AMONG], "by what the image has"


@pytest.mark.slow
# claim TG-C-247
def test_nor_does_any_under_a_user_space_kernel() -> None:
    # The control is a guest of the same engine without the ring.
    without, within = attempt(lab_with(engine=RUNSC)), attempt(runsc_lab())
    assert len(without) == len(bypasses()) >= 60
    assert {name: row for name, row in without.items() if row[0] != "done"} == {}, "control"
    assert {state for state, _ in within.values()} == {"refused", "harmless"}, {
        name: row for name, row in within.items() if row[0] not in ("refused", "harmless")
    }
    reasons = {name: why for name, (_, why) in within.items()}
    for name, rule in (("import", "denied_imports"), ("native _socket", "allowed_imports")):
        assert f"by {BY}" in reasons[name]
        assert f"({rule} of profile python)" in reasons[name]
    assert "No module named 'socket'" in reasons["the hook taken out"], "by the view"
    assert reasons["built-in importer"].startswith("PermissionError"), "by the kernel"


DENIED = """\
import json
try:
    import requests
except ImportError as exc:
    print(exc.name, exc)

import antigravity
"""


# claim TG-C-248
def test_a_denied_import_is_an_import_error_that_names_the_rule_and_is_recorded() -> None:
    ran = lab().run(DENIED)
    outcome = ran.outcome
    assert (outcome.exit, outcome.exit_code) == ("error", 1)
    assert outcome.stdout.decode().startswith(f"requests import of requests is denied by {BY}")
    last = outcome.stderr.decode().splitlines()
    assert last[1].strip() == 'File "job", line 7, in <module>', "nothing of ours in between"
    assert last[-1].startswith(f"ImportError: import of antigravity is not allowed by {BY}")
    found = [(one.rule, one.argument, one.line) for one in outcome.violations]
    assert found == [("denied_imports", "requests", 3), ("allowed_imports", "antigravity", 7)]
    for name in ("applied", "exec", "imports", "socket", "view"):
        assert f"guest-ring-{name}" in outcome.probes, "tried in this very run"


FLOOD = """\
import os
for n in range(300):
    try:
        __import__(f"m{n}")
    except ImportError:
        pass
for line in (
    b"violation\\x1fallowed_imports\\x1fforged\\x1f1\\n",
    b"violation\\x1fx\\x1fy\\x1f1\\n",
    b"\\xff\\x00" * 40000,
    b"violation\\x1fdenied_imports\\x1f\\x1b[31m\\x1f-4\\n",
):
    os.write(4, line)
print("still here")
"""


# claim TG-C-248
def test_violations_never_end_a_run_and_are_bounded() -> None:
    outcome = lab().run(FLOOD).outcome
    assert (outcome.exit, outcome.stdout) == ("ok", b"still here\n")
    assert len(outcome.violations) == 64
    assert {one.rule for one in outcome.violations} == {"allowed_imports"}
    assert lab().run("print(1)").outcome.violations == (), "control"


LEFT = """\
import sys
frame = sys._getframe()
while frame.f_back: frame = frame.f_back
register = frame.f_globals['atexit'].register
register(lambda: print([name in sys.modules for name in ('socket', 'ssl', 'json')]))
register(__import__, 'socket')
register(sys.modules['_frozen_importlib']._gcd_import, 'ssl')
register(__import__, 'json')
"""


# claim TG-C-248
def test_an_import_left_for_the_end_of_the_run_is_judged() -> None:
    outcome = lab().run(LEFT).outcome
    assert outcome.stdout == b"[False, False, True]\n", outcome
    assert [(one.argument, one.line) for one in outcome.violations] == [("ssl", 0), ("socket", 0)]
    bare = lab_with().run(LEFT).outcome
    assert (bare.stdout, bare.violations) == (b"[True, True, True]\n", ()), f"control: {bare}"


WORKS = """\
import argparse, csv, dataclasses, datetime, decimal, glob, gzip, hashlib, io, json, math, os
import pathlib, random, re, statistics, string, struct, sys, textwrap, time, typing, zipfile
import collections.abc, os.path
from __future__ import annotations
"""
WORKS_TOO = """\
assert time.strptime('2026', '%Y').tm_year == datetime.datetime.strptime('2026', '%Y').year
assert decimal.Decimal('1.1') + 1 and 'ä'.encode('latin-1').decode('cp1252') == 'ä'
argparse.ArgumentParser().format_help(); hashlib.new('sha256')
with zipfile.ZipFile('/tmp/z', 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('a', 'b')
with gzip.open('/tmp/g', 'wt') as g: g.write('x')
assert pathlib.Path('/tmp/a b').as_uri() == 'file:///tmp/a%20b'
assert statistics.mean([1, 2]) and random.random() and list(csv.reader(['a,b']))
@dataclasses.dataclass
class D: x: int = 1
print(json.dumps(dataclasses.asdict(D())))
"""


def test_what_the_profile_offers_works_with_all_it_needs_later() -> None:
    first, *rest = WORKS.splitlines()[::-1]
    outcome = lab().run("\n".join([first, *rest, WORKS_TOO])).outcome
    assert (outcome.exit, outcome.stdout, outcome.violations) == ("ok", b'{"x": 1}\n', ()), outcome


REQUESTS = """\
import http.client, sys
class requests:
    def delete(url):
        host, _, path = url.removeprefix('http://').partition('/')
        http.client.HTTPConnection(host, timeout=5).request('DELETE', '/' + path)
try:
    requests.delete('http://192.0.2.1/everything')
except OSError as exc:
    print(type(exc).__name__, exc.strerror)
"""


@pytest.mark.slow
# claim TG-C-249
def test_a_request_by_code_that_got_past_the_hook_dies_at_the_kernel() -> None:
    bare = lab_with().run(REQUESTS).outcome
    assert bare.stdout == b"OSError Network is unreachable\n", "control: a socket, and no way"
    held = lab_with("kernel").run(REQUESTS).outcome
    assert held.stdout == b"PermissionError Operation not permitted\n", "not even a socket"
    whole = lab().run(REQUESTS).outcome
    assert b"import of http is denied" in whole.stderr


@pytest.mark.slow
# claim TG-C-249
def test_the_table_says_which_layer_alone_would_have_held() -> None:
    found = {
        "none": attempt(lab_with()),
        "hook": attempt(lab_with("hook")),
        "view": attempt(lab_with("view")),
        "kernel": attempt(lab_with("kernel")),
        "all": attempt(lab()),
    }
    assert {state for state, _ in found["none"].values()} == {"done"}, "control"
    through = {name for name, (state, _) in found["kernel"].items() if state == "done"}
    assert through == {AMONG}, "the loader runs it: so there is none"
    assert "done" not in {state for state, _ in found["all"].values()}
    assert ring.import_table(found) == EVIDENCE.read_text("utf-8"), (
        "write it anew: python -m tests.support.ring"
    )


GREEDY = Task(
    "import os\n"
    "seen = [p for p in ('/threegate/agent/__main__.py', '/usr/lib/python3.11/smtplib.py',\n"
    "                    '/usr/lib/python3.11/__pycache__/smtplib.cpython-311.pyc')\n"
    "        if os.path.exists(p)]\n"
    "print(seen, 'smtplib.py' in os.listdir('/usr/lib/python3.11'), os.path.exists(os.__file__))\n"
)


# claim TG-C-247
def test_what_no_allowed_package_needs_is_not_in_view() -> None:
    assert lab().run(GREEDY).outcome.stdout == b"[] False True\n"
    outcome = lab_with().run(GREEDY).outcome
    assert outcome.stdout.count(b"smtplib") == 2, f"control: {outcome}"


# Which promise of a guest is broken when one mechanism is gone; nobody forges its answer.
BROKEN = {
    "hook": "imports",
    "view": "view",
    "noexec": "exec",
    "landlock": "exec",
    "seccomp": "socket",
    "lists": "applied",
}


@pytest.mark.parametrize(
    "mechanism",
    [
        *("landlock", "seccomp"),
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("hook", "lists", "noexec", "view")),
    ],
)
# claim TG-C-380
def test_a_guest_that_lacks_one_mechanism_gets_no_job(mechanism: str) -> None:
    with pytest.raises(GateUnavailable) as caught:
        lab_lacking(mechanism).run("print(1)")
    assert f"{NOT_PROMISED}guest-ring-{BROKEN[mechanism]}" in caught.value.message
    whole = lab().run("print(1)").outcome
    assert whole.stdout == b"1\n", "control: with all of them it runs"
    assert f"guest-ring-{BROKEN[mechanism]}" in whole.probes
    assert {*BROKEN} == {*MECHANISMS}


STARTS = """\
import os
for path in ('/usr/bin/true', '/tmp/none', '/tmp/x'):
    if path == '/tmp/x':
        open(path, 'w').write('#!/usr/bin/true')
        os.chmod(path, 0o755)
    try:
        os.posix_spawn(path, [path], {})
    except OSError as exc:
        print(path, exc.strerror)
print(os.system('true') != 0)
"""


# claim TG-C-285
def test_what_the_kernel_refused_code_to_execute_stands_in_its_result() -> None:
    outcome = lab().run(STARTS).outcome
    assert outcome.stdout.decode().splitlines() == [
        "/usr/bin/true Permission denied",
        "/tmp/none No such file or directory",
        "/tmp/x Permission denied",
        "True",
    ]
    found = [(one.rule, one.argument) for one in outcome.violations]
    assert found == [
        ("allowed_binaries", "/usr/bin/true"),
        ("allowed_binaries", "/tmp/x"),
        ("allowed_binaries", "/bin/sh"),
    ], "what was not there is none"
    assert lab().run("print(1)").outcome.violations == (), "control: our own attempts are none"


SORTS = """\
import os
open('/tmp/rows', 'w').write('b\\na\\n')
for path in ('/usr/bin/sort', '/usr/bin/head'):
    try:
        pid = os.posix_spawn(path, [path, '/tmp/rows'], {})
        print(os.waitpid(pid, 0)[1], flush=True)
    except OSError as exc:
        print(type(exc).__name__)
"""


def with_programs(*paths: str) -> Bundle:
    """Return the rules of the tests with these programs in the profile of Python."""

    def change(sections: dict[str, Any]) -> None:
        sections["tool-exec"]["interpreter_ring"]["python"]["allowed_binaries"] = [*paths]

    return altered(policy(tool_exec=ENABLED), change).bundle()


@pytest.mark.slow
@pytest.mark.parametrize("engine", [EMULATION, RUNSC])
# claim TG-C-264
def test_code_that_may_start_a_program_starts_that_one_as_it_was_built(engine: str) -> None:
    found, task = lab_of(engine).backend, Task(SORTS)
    rules = with_programs("/usr/bin/sort")
    want = want_of(rules, request_for(task), found.image.manifest)
    outcome = found.run(want, asked_for(task, rules)).outcome
    why = "PermissionError" if engine == EMULATION else "FileNotFoundError"
    assert outcome.stdout.decode().split() == ["a", "b", "0", why], outcome
    assert {"guest-ring-exec", "guest-ring-programs", "guest-ring-socket"} <= {*outcome.probes}
    # A link to the same bytes is not what was built.
    rules = with_programs("/usr/bin/awk", "/usr/bin/sort")
    want = want_of(rules, request_for(task), found.image.manifest)
    if engine == EMULATION:
        with pytest.raises(GateUnavailable, match=f"{NOT_PROMISED}guest-ring-programs"):
            found.run(want, asked_for(task, rules))
    else:  # it is mounted where it really is, which is no place the profile names
        outcome = found.run(want, asked_for(task, rules)).outcome
        told = f"{NOT_PROMISED}guest-only-its-image"
        assert (outcome.exit, outcome.note) == (NOT_AS_PROMISED, told)
