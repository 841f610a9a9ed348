"""The `threegate` command: reads the environment once, runs one command, answers in one voice."""

import io
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from threegate.base.errors import EX_INTERRUPTED, ThreeGateError, UsageError
from threegate.host.command_context import Context
from threegate.host.output import Output, fill_descriptors, say_nowhere
from threegate.host.settings import Settings

EXIT_PIPE: Final = 141  # as a shell shows a program that died of SIGPIPE
_REPORT: Final = (
    "this is a bug: please report it with what you ran and what THREEGATE_DEBUG=1 adds; "
    "SECURITY.md says how, if it could be a weakness"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    fill_descriptors()
    os.umask(0o077)  # 000 would let others write, 777 would keep the next command out
    environ = dict(os.environ)
    out = Output.standard()
    try:
        code = _answer(sys.argv[1:] if argv is None else argv, environ, out)
        out.flush()
    except BrokenPipeError:
        say_nowhere()
        return EXIT_PIPE
    except ThreeGateError as exc:  # the answer itself could not be written
        say_nowhere()
        out.error(exc)
        return exc.exit_code
    return code


def _answer(argv: Sequence[str], environ: Mapping[str, str], out: Output) -> int:
    try:
        return _run(argv, environ, out)
    except ThreeGateError as exc:
        out.error(exc)
        return exc.exit_code
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        out.note("interrupted")
        return EX_INTERRUPTED
    except Exception as exc:  # noqa: BLE001 -- the last resort of a main
        _explain(exc, out, debug=environ.get("THREEGATE_DEBUG") == "1")
        return ThreeGateError.exit_code


def _run(argv: Sequence[str], environ: Mapping[str, str], out: Output) -> int:
    from threegate.cli.parser import build

    try:
        args, unknown = build().parse_known_args(argv)
        if unknown:  # `parse_args` would name the help of the whole program
            args.refuse(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as exc:  # --help and --version
        return int(exc.code or 0)
    try:
        settings = Settings.from_environment(environ)
    except FileNotFoundError as exc:
        raise UsageError("the current directory is gone") from exc
    # Python sets `sys.stdin` to None if descriptor 0 was closed.
    stdin = sys.stdin.buffer if sys.stdin is not None else io.BytesIO()
    code: int = args.run(args, Context(settings, environ, out, stdin))
    return code


def _explain(exc: Exception, out: Output, *, debug: bool) -> None:
    """Print where it happened; the exception's words may be foreign and need THREEGATE_DEBUG."""
    import traceback

    if debug:
        out.trace("".join(traceback.format_exception(exc)))
    frames = traceback.extract_tb(exc.__traceback__)
    # The last frame of ours: a line inside a library says little in a bug report.
    ours = [frame for frame in frames if "threegate" in Path(frame.filename).parts] or frames
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
    out.error(ThreeGateError(f"unexpected {type(exc).__name__} at {where}", hint=_REPORT))
