"""`threegate doctor`: starts every gate and reports what this machine enforces."""

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from threegate.cli.grammar import CommandGroup
from threegate.host.command_context import Context

if TYPE_CHECKING:
    from threegate.sandbox.attacks.base import AttackResult
    from threegate.sandbox.doctor import Check, Diagnosis

_ABOUT = """\
Starts every gate in its sandbox, where it first tries each forbidden act, and says which
mechanisms are in force, which are missing and what to do about it. Modes: standard, when every gate
starts as promised; strong, when each also has its own uid, a cgroup and the host's firewall; refuse
otherwise. In a workspace it also compares the sandboxes with the signed ones and, where policy
enables the heavy lane, starts a guest with every engine it names; the first time, that takes up to
a minute. With --attack every known escape is tried in every sandbox, and outside as a control; that
takes minutes."""
_STATES = {"in-force": "in force", "missing": "MISSING", "not-applicable": "not applicable"}


def add(commands: CommandGroup) -> None:
    """Add the command."""
    parser = commands.command(
        "doctor",
        "start every gate and say what confines it",
        run=run,
        about=_ABOUT,
        examples=("doctor", "doctor --json", "doctor --attack"),
    )
    parser.add_argument("--attack", action="store_true", help="try every known escape, too")


def run(args: argparse.Namespace, context: Context) -> int:
    """Examine, tell, and fail unless every gate can be started as promised."""
    from threegate.host.diagnosis import key_of_operator, of_workspace, refuse_weakness
    from threegate.sandbox.doctor import Diagnosis

    machine = _examined(context)
    diagnosis = Diagnosis((*machine.checks, *of_workspace(context, args)))
    key = key_of_operator(context)
    results = _attacked(context, machine) if args.attack else []
    checks = diagnosis.checks
    if args.json:
        document: dict[str, Any] = {
            "mode": diagnosis.mode,
            "checks": [_document(check) for check in checks],
            "key": key,
        }
        if args.attack:
            document["attacks"] = [result.plain() for result in results]
        context.out.document(document)
    else:
        _tell(context, diagnosis.mode, checks, key)
        if args.attack:
            _tell_attacks(context, results)
    refuse_weakness(checks, results)
    return 0


def _examined(context: Context) -> "Diagnosis":
    from threegate.sandbox.doctor import examine
    from threegate.sandbox.profiles import PROFILES

    done = 0
    with context.out.progress("starting gates", len(PROFILES)) as show:

        def next_gate(_: str) -> None:
            nonlocal done
            done += 1
            show(done)

        return examine(next_gate)


def _attacked(context: Context, diagnosis: "Diagnosis") -> "list[AttackResult]":
    from threegate.sandbox.attacks import runner
    from threegate.sandbox.machine import find_machine

    if diagnosis.mode == "refuse":
        return []  # a sandbox that does not start cannot be attacked
    done = 0
    with context.out.progress("attacking boxes", len(runner.EVERY_PROFILE)) as show:

        def next_box(_: str) -> None:
            nonlocal done
            done += 1
            show(done)

        return runner.attack(find_machine(), runner.EVERY_PROFILE, progress=next_box)


def _document(check: "Check") -> dict[str, str]:
    return {
        "name": check.name,
        "state": check.state,
        "level": check.level,
        "detail": check.detail,
        "fix": check.fix,
    }


def _tell(
    context: Context, mode: str, checks: "Sequence[Check]", key: dict[str, str] | None
) -> None:
    told = "no key of yours is known here" if key is None else f"{key['path']} ({key['strength']})"
    context.out.fields([("mode", mode), ("key", told)])
    context.out.line()
    rows = [(check.name, _STATES[check.state], check.detail) for check in checks]
    context.out.table(("MECHANISM", "STATE", "DETAIL"), rows)
    for level, words in (("standard", "to fix"), ("strong", "for mode strong")):
        missing = [c for c in checks if c.state == "missing" and c.level == level and c.fix]
        if missing:
            context.out.line()
            context.out.line(f"{words}:")
        for check in missing:
            context.out.line(f"  {check.name}: {check.fix}")


def _tell_attacks(context: Context, results: "Sequence[AttackResult]") -> None:
    context.out.line()
    made = Counter(result.profile for result in results)
    held = Counter(result.profile for result in results if result.held)
    counted = Counter(result.profile for result in results if result.counted)
    rows = [
        (name, str(made[name]), str(held[name]), str(made[name] - held[name]), str(counted[name]))
        for name in made
    ]
    context.out.table(("BOX", "ATTEMPTS", "STOPPED", "NOT STOPPED", "WORK OUTSIDE"), rows)
    for result in results:
        if not result.held:
            what = f"{result.outcome}, {result.reason or 'no reason'}: {result.detail}"
            context.out.line(f"  {result.profile}: {result.name}: {what}")
