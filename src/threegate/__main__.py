"""`python -m threegate`, and the `threegate` command: start isolated, then run the command line.

Python puts the current directory (`-m`) and PYTHONPATH before its own modules, and other PYTHON*
variables choose what it loads.  A file named `yaml.py` in a directory of downloads would run with
the operator's keys.  So a process that was started this way replaces itself by one that was not.
This module imports nothing that Python has not loaded alone.
"""

import os
import sys


def main() -> int:
    """Run the command line in an isolated interpreter and return its exit code."""
    isolated = sys.flags.ignore_environment and sys.flags.safe_path
    if not isolated and _is_influenced():
        bytecode = ["-B"] if sys.flags.dont_write_bytecode else []
        command = [sys.executable, _isolation(), *bytecode, "-m", "threegate", *sys.argv[1:]]
        os.execv(sys.executable, command)  # noqa: S606
    from threegate.cli.main import main as run

    return run()


def _isolation() -> str:
    """Return the option that isolates; after `pip install --user`, our own place stays in view."""
    user_site = getattr(sys.modules.get("site"), "USER_SITE", None)
    return "-EP" if user_site and __file__.startswith(f"{user_site}{os.sep}") else "-I"


def _is_influenced() -> bool:
    """Tell whether the environment or the current directory can name modules of this process."""
    if any(name.startswith("PYTHON") for name in os.environ):
        return True
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it is gone: nothing can be imported from it
        return False
    return any(os.path.realpath(place) == here for place in sys.path)


if __name__ == "__main__":
    sys.exit(main())
