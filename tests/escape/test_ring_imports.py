"""Attacks on the import rules of the ring, in a real guest: ways around them, and what is left.

Each way obtains something that the profile denies and uses it.  The control is the same guest
with the ring taken out: there every way works.
"""

from pathlib import Path

import pytest

from tests.support import ring_report
from tests.support.heavy import Task, lab, runsc_lab
from tests.support.ring import attempt, lab_with
from tests.support.ring_bypasses import bypasses
from threegate.host.heavy.runsc import RUNSC

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence" / "ring-imports.md"
BY = "policy/tool-exec.policy.md:"


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
    for name in ("applied", "exec", "imports", "view"):
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
    assert "done" not in {state for state, _ in found["kernel"].values()}
    assert "done" not in {state for state, _ in found["all"].values()}
    assert ring_report.table(found) == EVIDENCE.read_text("utf-8"), (
        "write it anew: python -m tests.support.ring_report"
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
