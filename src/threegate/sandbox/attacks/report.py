"""The attack as a program of its own: results as JSON, for whoever starts it as another user."""

import json
import sys

from threegate.errors import ThreeGateError
from threegate.sandbox.attacks.runner import EVERY_PROFILE, attack
from threegate.sandbox.machine import find_machine


def main() -> None:
    """Attack the profiles of the first argument with the attempts of the second; none means all."""
    profiles, names = (word.split(",") if word else [] for word in (*sys.argv[1:3], "", "")[:2])
    try:
        results = attack(find_machine(), profiles or EVERY_PROFILE, names=names)
    except ThreeGateError as exc:
        sys.stderr.write(f"threegate: error: {exc.message} [{exc.code}]\n")
        sys.exit(exc.exit_code)
    sys.stdout.write(json.dumps([item.plain() for item in results]))
    sys.stdout.flush()
