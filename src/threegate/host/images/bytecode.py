"""Python files of an image, compiled beforehand by the image's own interpreter.

A guest keeps nothing, so a file that is not compiled here is compiled in every run; Debian compiles
it when a package is installed.  The image's own Python compiles in a sandbox without network, with
read-only layers and nothing to write to.  It answers on its standard output, and only for the files
that were asked for.

SECURITY
    Starts bubblewrap, and in it Debian's Python of the locked digest, which compiles and runs
    nothing of it.  Reads its answer, bounded, in a fixed order.  If this module is wrong, the guest
    runs other code than its sources.
"""

import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from threegate.base.errors import GateUnavailable
from threegate.host.images.layer import Kept, Tree
from threegate.sandbox.programs import find_program

NO_BOX: Final = "TG-IMG-030"
NOT_COMPILED: Final = "TG-IMG-031"
MAX_COMPILED_BYTES: Final = 32 * 1024 * 1024
SECONDS: Final = 1800
_LENGTH: Final = struct.Struct("<I")
_ABSENT: Final = 0xFFFFFFFF
CACHE_TAG: Final = "cpython-311"
# Where modules are found, the longest first.
MODULES: Final = (
    *("usr/lib/python3.11/lib-dynload/", "usr/lib/python3.11/", "usr/lib/python3/dist-packages/"),
)

# Reads paths from standard input, one a line; answers each with a length and bytes, or with
# a length that marks source of another Python (some packages carry such files as data).
# The imports of the file follow, also with a length: one name per line, with `~` before it if only
# a function imports it.  They are read from the compiled code: the level, the wanted names and the
# module name are the three operands of an import.
_PROGRAM: Final = """\
import importlib._bootstrap_external as outside, importlib.util, struct, sys
IMPORT, CONSTANT, EXTENDED, FUNCTION = 108, 100, 144, 1
def operand(code, at):
    value, shift = code[2 * at + 1], 8
    while at and code[2 * at - 2] == EXTENDED:
        at, value, shift = at - 1, value | code[2 * at - 1] << shift, shift + 8
    return value, at - 1
def imports(code, package, mark):
    kinds = code.co_code[::2]
    at = kinds.find(IMPORT)
    while at >= 0:
        name, before = operand(code.co_code, at)
        wanted, before = operand(code.co_code, before)
        level, _ = operand(code.co_code, before)
        name, level = code.co_names[name], code.co_consts[level]
        if level:
            above = package.split(".")[: len(package.split(".")) - level + 1]
            name = ".".join([*above, *filter(None, [name])])
        yield mark + name
        yield from (f"{mark}{name}.{item}" for item in code.co_consts[wanted] or ())
        at = kinds.find(IMPORT, at + 1)
    for inner in code.co_consts:
        if isinstance(inner, type(code)):
            yield from imports(inner, package, "~" if inner.co_flags & FUNCTION else mark)
def package_of(path):
    parts = path.split("/")[3:-1]
    return ".".join(parts[1:] if parts[:1] == ["dist-packages"] else parts)
paths = sys.stdin.buffer.read().decode().split("\\n")
out = sys.stdout.buffer
for path in paths:
    with open("/tree/" + path, "rb") as file:
        source = file.read()
    try:
        code = compile(source, "/" + path, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError, RecursionError):
        out.write(struct.pack("<I", 0xFFFFFFFF))
        continue
    data = outside._code_to_hash_pyc(code, importlib.util.source_hash(source), False)
    names = "\\n".join(sorted(set(imports(code, package_of(path), "")))).encode()
    out.write(struct.pack("<I", len(data)) + data + struct.pack("<I", len(names)) + names)
out.flush()
"""


# Module -> names it imports when it is loaded, names its functions import later.
Imports = dict[str, tuple[list[str], list[str]]]


def compile_all(tree: Tree, base: Path, root: Path) -> Imports:
    """Add the compiled form of each Python file to a tree; return the imports of each.

    `base` holds the tree of the base layer, `root` that of this one, both on disk.
    """
    sources = sorted(path for path in tree.files if _is_source(path))
    with subprocess.Popen(
        _command(base, root),
        env={"PYTHONHASHSEED": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as box:
        assert box.stdin is not None
        assert box.stdout is not None
        watch = threading.Timer(SECONDS, box.kill)
        watch.start()
        try:
            with suppress(BrokenPipeError), box.stdin:
                box.stdin.write("\n".join(sources).encode())
            taken = {path: _take(box.stdout, tree, path) for path in sources}
            ended = not box.stdout.read(1) and box.wait() == 0
        finally:
            watch.cancel()
            box.kill()
    if not ended:
        raise _not_compiled()
    found: Imports = {module_of(path): ([], []) for path in tree.files if path.endswith(".so")}
    found |= {module_of(path): _sorted(names) for path, names in taken.items()}
    return {name: found[name] for name in sorted(found) if name}


def module_of(path: str) -> str:
    """Return the dotted name by which a file is imported; nothing if it is not."""
    for place in MODULES:
        if path.startswith(place):
            above, _, name = path.removeprefix(place).rpartition("/")
            parts = [*filter(None, above.split("/")), name.partition(".")[0]]
            return ".".join(parts).removesuffix(".__init__")
    return ""


def _sorted(names: list[str]) -> tuple[list[str], list[str]]:
    at_once = [name for name in names if not name.startswith("~")]
    later = sorted({name[1:] for name in names if name.startswith("~")} - {*at_once})
    return at_once, later


def _is_source(path: str) -> bool:
    return path.endswith(".py") and path.startswith(("usr/lib/python3", "threegate/"))


def _command(base: Path, root: Path) -> list[str]:
    bwrap = find_program("bwrap")
    if bwrap is None:
        hint = "install bubblewrap, as every gate needs it"
        raise GateUnavailable("there is no bwrap here to compile in", code=NO_BOX, hint=hint)
    return [
        *(str(bwrap), "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"),
        *("--ro-bind", str(base / "usr"), "/usr", "--ro-bind", str(root), "/tree"),
        *("--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"),
        *("--remount-ro", "/", "--chdir", "/", "--"),
        *("/usr/bin/python3.11", "-P", "-s", "-S", "-B", "-c", _PROGRAM),
    ]


def _take(answer: IO[bytes], tree: Tree, path: str) -> list[str]:
    (length,) = _LENGTH.unpack(_exactly(answer, _LENGTH.size))
    if length == _ABSENT:
        return []
    if length > MAX_COMPILED_BYTES:
        raise _not_compiled()
    above, _, name = path.rpartition("/")
    kept, out = tree.new_file()
    with out:
        out.write(_exactly(answer, length))
    place = f"{above}/__pycache__/{name.removesuffix('.py')}.{CACHE_TAG}.pyc"
    tree.files[place] = Kept(kept, length)
    (length,) = _LENGTH.unpack(_exactly(answer, _LENGTH.size))
    if length > MAX_COMPILED_BYTES:
        raise _not_compiled()
    return _exactly(answer, length).decode("utf-8", "replace").splitlines()


def _exactly(answer: IO[bytes], count: int) -> bytes:
    data = answer.read(count)
    if len(data) != count:
        raise _not_compiled()
    return data


def _not_compiled() -> GateUnavailable:
    hint = "`threegate doctor` says whether sandboxes work on this machine"
    message = "the image's Python did not compile its files"
    return GateUnavailable(message, code=NOT_COMPILED, hint=hint)
