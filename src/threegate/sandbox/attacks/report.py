"""The attack as a program of its own: results as JSON, for whoever starts it as another user."""

import json
import sys

from threegate.base.errors import ThreeGateError
from threegate.sandbox.attacks.runner import EVERY_PROFILE, attack
from threegate.sandbox.machine import find_machine


def main() -> None:
    """Attack the profiles of the first argument with the attempts of the second; none means all.

    A third argument leaves the controls out, for whoever made them already.
    """
    words = (*sys.argv[1:], "", "", "")
    profiles, names = (word.split(",") if word else [] for word in words[:2])
    control = words[2] != "no-control"
    try:
        results = attack(find_machine(), profiles or EVERY_PROFILE, names=names, control=control)
    except ThreeGateError as exc:
        sys.stderr.write(f"threegate: error: {exc.message} [{exc.code}]\n")
        sys.exit(exc.exit_code)
    sys.stdout.write(json.dumps([item.plain() for item in results]))
    sys.stdout.flush()
