"""Which modules stay in view: the allowed packages, and what they were recorded to need.

The image carries, for every module in it, the names it imports when it is loaded and the names
its functions import later (`host/images/bytecode.py` reads them out of the compiled files).
What stays:

  - every module of an allowed package;
  - what an allowed package imports, when it is loaded or later, and what those import when
    they are loaded, and so on; but nothing by a name that the profile denies;
  - what is in memory after the allowed packages were loaded, by whatever name.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

Record = Mapping[str, tuple[Collection[str], Collection[str]]]  # module -> at once, later
# What compiled code loads, or a name that is put together; no import says so.
LATE: Mapping[str, tuple[str, ...]] = {
    "datetime": ("_strptime",),
    "numpy": ("secrets",),
    "pandas": ("_sysconfigdata__x86_64-linux-gnu", "dateutil.easter"),
    "time": ("_strptime",),
}


def top_of(module: str) -> str:
    """Return the package a module belongs to."""
    return module.partition(".")[0]


def closure(
    record: Record,
    *,
    allowed: Collection[str],
    denied: Collection[str],
    loaded: Iterable[str],
    complete: bool = True,
) -> frozenset[str]:
    """Return every module that stays.

    `complete` says that the allowed packages are loaded.  If not, what they import when they are
    stays even by a name that is denied.
    """
    waiting = [name for name in record if top_of(name) in allowed or top_of(name) == "encodings"]
    waiting += [name for name in loaded if name in record]
    waiting += [name for top in allowed for name in LATE.get(top, ()) if name in record]
    kept = set(waiting)
    while waiting:
        module = waiting.pop()
        at_once, on_call = record[module]
        later = on_call if top_of(module) in allowed else ()
        for names, strict in ((at_once, complete), (later, True)):
            found = {part for name in names for part in _modules(record, name)} - kept
            found -= {name for name in found if strict and top_of(name) in denied}
            kept |= found
            waiting += found
    return frozenset(kept)


def _modules(record: Record, name: str) -> Iterator[str]:
    """Yield the modules in a dotted name: all that exist of `a`, `a.b`, `a.b.c`."""
    at = 0
    while at >= 0:
        at = name.find(".", at + 1)
        found = name if at < 0 else name[:at]
        if found not in record:
            return
        yield found
