"""The interpreter that approved Python code runs in: a program of its own inside the guest.

The agent starts it before the snapshot, in a view of its own, with nothing loaded but what
Python itself needs.  It loads what its profile offers, the agent takes everything else out of
its view, it puts its import hook in place, and waits for the code.

    fd 3   what the agent says: a length and a marshalled table, until the code begins
    fd 4   what it says: lines, their parts separated by 0x1f

SECURITY
    Runs hostile code in its own process.  The hook gives clear errors; it is not a boundary.
    Code that gets past it finds no files of other packages, no network, and nothing it may
    execute.  Only modules that are built into Python are imported here, so that nothing
    is in memory that no allowed package asked for.
"""

import _frozen_importlib
import _io
import atexit
import builtins
import gc
import marshal
import posix
import sys

TYPE_CHECKING = False  # importing typing would leave it in memory
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType
    from typing import Any

    Message = dict[str, Any]

bootstrap: "Any" = _frozen_importlib
ORDERS, REPORTS = 3, 4
LIBRARY = "/usr/lib/python3"
# Loaded by Python and by this program for themselves; packages that want one import it again.
OWN = ("__main__", "atexit", "gc", "marshal", "zipimport")
MAX_REPORTS = 64
EPERM, EACCES, AF_INET, SOCK_STREAM = 1, 13, 2, 1
REFUSED = 13  # how a process ends in which something was tried and refused


def report(*words: str) -> None:
    """Write one line to the agent."""
    posix.write(REPORTS, "\x1f".join(words).encode("ascii", "backslashreplace") + b"\n")


def order() -> "Message":
    """Return the next message of the agent."""
    size = int.from_bytes(_read(4), "big")
    found: Message = marshal.loads(_read(size))  # noqa: S302  # the agent's own words
    return found


def _read(size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = posix.read(ORDERS, size - len(data))
        if not piece:
            posix._exit(0)
        data += piece
    return data


class Hook:
    """Checks imports by user code; imports by allowed packages are not checked."""

    def __init__(self, ring: "Message", closure: list[str]) -> None:
        self.imports = frozenset(ring["imports"])
        self.denied = frozenset(ring["denied_imports"])
        self.profile = ring["profile"]
        self.rules: Message = {}
        self.closure = frozenset(closure)
        self.reported = 0
        self._import = builtins.__import__
        self._find = bootstrap._find_and_load
        self._own, self._frame = globals(), sys._getframe  # code may put others in their place
        self._held = Hook.held_import.__code__, Hook.held_find.__code__

    def install(self) -> None:
        """Put the hook in front of every way to import."""
        builtins.__import__ = self.held_import  # type: ignore[assignment]
        bootstrap._find_and_load = self.held_find
        sys.path_hooks[:] = sys.path_hooks[1:]  # archives; directories stay

    def held_import(
        self,
        name: str,
        globals: "Message | None" = None,
        locals: "Message | None" = None,
        fromlist: "Any" = (),
        level: int = 0,
    ) -> "Any":
        """Replace `__import__`: every import statement calls it."""
        frame = self._frame(1)
        # Nearly all callers are libraries, so most imports pay only for this line.  Imports by the
        # import system itself are not checked.
        if not _is_library(frame) and frame.f_code is not self._held[0]:
            # PyImport_Import hands over a list, and no statement does.
            by_c = type(fromlist) is list
            self._judge(self._absolute(name, globals, level), frame, by_c=by_c)
        return self._import(name, globals, locals, fromlist, level)

    def held_find(self, name: str, import_: object) -> "Any":
        """Replace the import system's own search, which importlib calls directly."""
        frame = self._frame(1)
        if frame.f_code is not self._held[0]:  # where it was judged
            asker = self._asker(frame)
            if asker is not None:
                self._judge(name, asker, by_c=import_ is not bootstrap._gcd_import)
        return self._find(name, import_)

    def _absolute(self, name: str, globals: "Message | None", level: int) -> str:
        if type(level) is int and not level:
            return name
        if type(level) is not int or type(globals) is not dict:
            return "."  # they may say one thing here, and another to the import
        try:
            package = bootstrap._calc___package__(globals)
            return str(bootstrap._resolve_name(name, package, level))
        except (ImportError, KeyError, TypeError):
            return name or "."

    def _asker(self, frame: "FrameType") -> "FrameType | None":
        """Return the frame that asks the import system; nothing if it is that of a package."""
        while _is_import_system(frame):
            if frame.f_back is None:
                return frame  # a thread that begins there is nobody's but the user's
            frame = frame.f_back
        is_part = frame.f_code in self._held  # of an import that was judged
        return None if is_part or _is_library(frame) else frame

    def _judge(self, name: str, frame: "FrameType", *, by_c: bool) -> None:
        name = str.__str__(name)  # a text may lie about its methods, and about what it equals
        top = name.partition(".")[0]
        if top in self.denied:
            rule = "denied_imports"
        elif top in self.imports or top == "__future__":
            return
        elif by_c and top in self.closure:
            return  # compiled code that loads a part of its own late
        else:
            rule = "allowed_imports"
        ours = frame.f_globals is self._own or _is_library(frame)
        line = 0 if ours else frame.f_lineno or 0
        if self.reported < MAX_REPORTS:
            self.reported += 1
            report("violation", rule, name[:200] or "?", str(line))
        place = self.rules.get(f"{rule}/{top}") or self.rules.get(rule, "the policy")
        verb = "denied" if rule == "denied_imports" else "not allowed"
        message = f"import of {top} is {verb} by {place} ({rule} of profile {self.profile})"
        raise ImportError(message, name=top)


def _is_library(frame: "FrameType") -> bool:
    """Tell whether a frame belongs to a module of the image, as it was loaded."""
    file = frame.f_code.co_filename
    spec: Any = frame.f_globals.get("__spec__")
    if type(spec) is bootstrap.ModuleSpec and spec.origin == file and file.startswith(LIBRARY):
        return True
    return file.startswith("<frozen ")


def _is_import_system(frame: "FrameType") -> bool:
    """Tell whether a frame is of the modules that import for others."""
    file = frame.f_code.co_filename
    return file.startswith("<frozen importlib") or ("/importlib/" in file and _is_library(frame))


def load(names: list[str]) -> list[str]:
    """Import modules for the code before the snapshot; return those that were found."""
    found = []
    for name in names:
        try:
            __import__(name)
            found.append(name)
        except Exception:  # noqa: BLE001, S110  # code that imports it will see why
            pass
    return found


def seal(hook: Hook) -> None:
    """Forget where files were, and put the hook in place."""
    if "os" in sys.modules:
        sys.modules["os"].environ.clear()  # some set variables for libraries that are loaded by now
    posix.environ.clear()
    sys.path_importer_cache.clear()
    for name in OWN:
        sys.modules.pop(name, None)
    gc.collect()
    gc.freeze()
    hook.install()


def prove(asked: "Message") -> list[str]:
    """Try what the ring forbids; return the names of the attempts that were refused.

    Nothing to try is nothing proved.
    """
    proved = []
    denied = all(_is_refused(name, "is denied by") for name in asked["denied"])
    if denied and _is_refused("threegate_probe", "is not allowed by"):
        proved.append("imports")
    if asked["hidden"] and all(_is_absent(path) for path in asked["hidden"]):
        proved.append("view")
    if asked["closed"] and all(_ends_refused(_execute, path) for path in asked["closed"]):
        proved.append("exec")
    if _ends_refused(_open_socket, ""):
        proved.append("socket")
    return proved


def _is_refused(name: str, words: str) -> bool:
    try:
        exec(compile(f"__import__({name!r})", "probe", "exec"), {"__name__": "__main__"})  # noqa: S102
    except ImportError as exc:
        return words in str(exc)
    return False


def _is_absent(path: str) -> bool:
    try:
        posix.stat(path)
    except FileNotFoundError:
        return True
    except OSError:
        pass
    return False


def _ends_refused(act: "Callable[[str], bool]", path: str) -> bool:
    """Run a function in a child process; tell whether it was refused there."""
    pid = posix.fork()
    if pid == 0:
        code = 1
        try:
            code = REFUSED if act(path) else 1
        finally:
            posix._exit(code)
    return posix.waitstatus_to_exitcode(posix.waitpid(pid, 0)[1]) == REFUSED


def _execute(path: str) -> bool:
    try:
        posix.execve(path, [path, "-I", "-S", "-c", "pass"], {})
    except OSError as exc:
        return exc.errno == EACCES


def _open_socket(_: str) -> bool:
    # Not by the hook, which would refuse the import: what counts here is the kernel.
    spec = bootstrap.BuiltinImporter.find_spec("_socket")
    try:
        bootstrap._load(spec).socket(AF_INET, SOCK_STREAM)
    except OSError as exc:
        return bool(exc.errno == EPERM)
    return False


def run(job: "Message") -> int:
    """Run code to its end; return its exit code."""
    _fresh_randomness()
    for name, fd, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        errors = "strict" if fd != 2 else "backslashreplace"
        stream = _io.open(fd, mode, encoding="utf-8", errors=errors)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    posix.chdir("/tmp")  # noqa: S108  # it may be another one by now
    sys.setrecursionlimit(job["recursion"])
    sys.argv, sys.orig_argv = ["job"], ["job"]
    main = type(sys)("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    try:
        exec(compile(job["code"], "job", "exec"), main.__dict__)  # noqa: S102  # what was approved
        return finish(0)
    except SystemExit as exc:
        if exc.code is None or isinstance(exc.code, int):
            return finish((exc.code or 0) & 255)
        sys.stderr.write(f"{exc.code}\n")
        return finish(1)
    except BaseException as exc:  # noqa: BLE001  # as the interpreter itself would end
        shown = _without_us(exc.__traceback__)
        sys.__excepthook__(type(exc), exc.with_traceback(shown), shown)
        return finish(1)


def _without_us(trace: "TracebackType | None") -> "TracebackType | None":
    """Return a traceback without the frames of this program."""
    if trace is None:
        return None
    below = _without_us(trace.tb_next)
    if trace.tb_frame.f_globals is globals():
        return below
    return type(trace)(below, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


def finish(code: int) -> int:
    """Do the interpreter's last steps."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120  # as the interpreter says it
    return code


def _fresh_randomness() -> None:
    """Seed again every generator that was seeded before the snapshot."""
    if "random" in sys.modules:
        sys.modules["random"].seed(posix.urandom(64))
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(list(posix.urandom(64)))


def main() -> None:
    """Do what the agent says, in its order: load, seal, prove as often as asked, run."""
    posix.unsetenv("LC_CTYPE")  # Python itself puts a locale there
    posix.environ.clear()
    asked = order()
    sys.path.append(asked["packages"])
    if asked["client"]:  # the gateway's, where there is one; nobody finds the place again
        sys.path.append(asked["client"])
    report("found", *load(asked["imports"]))
    if asked["client"]:
        sys.path.remove(asked["client"])
    report("loaded", *sorted(sys.modules))
    asked = order()
    hook = Hook(asked["ring"], asked["closure"])
    seal(hook)
    while "code" not in (job := order()):
        hook.rules = {}
        report("proved", *prove(job))
        for name, held in (("imports", hook.imports), ("denied_imports", hook.denied)):
            report(name, *sorted(held))
    hook.reported, hook.rules = 0, job["rules"]
    posix.close(ORDERS)
    posix._exit(run(job))


if __name__ == "__main__":
    main()
