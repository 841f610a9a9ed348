"""Views already made, kept while the files they name are the same ones.

Making a view asks the dynamic loader about every native module: 5 to 30 ms, as long as a
whole start.  A kept view is used only if each file in it, the loader's own cache and the
directories that were searched are what they were: same device, inode, size and times.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from threegate.sandbox.profiles import Profile
from threegate.sandbox.view import View, view_of

_LOADER_CACHE: Final = "/etc/ld.so.cache"

Key = tuple[Profile, tuple[Path, ...]]
Identity = tuple[int, int, int, int, int] | None


@dataclass(frozen=True, slots=True)
class _Kept:
    view: View
    files: dict[str, Identity]


@dataclass(frozen=True, slots=True)
class Views:
    """The views of one process of the host."""

    _kept: dict[Key, _Kept] = field(default_factory=dict)

    def of(self, profile: Profile, programs: tuple[Path, ...] = ()) -> View:
        """Return the view of a profile, made anew if anything in it changed."""
        kept = self._kept.get((profile, programs))
        if kept is not None and all(_identity(p) == i for p, i in kept.files.items()):
            return kept.view
        view = view_of(profile, programs)
        files = {path: _identity(path) for path in _named(view, programs)}
        self._kept[profile, programs] = _Kept(view, files)
        return view


def _named(view: View, programs: tuple[Path, ...]) -> set[str]:
    sources = {mount.source for mount in view.mounts if mount.source} | {view.loader}
    # A name that appears in one of these directories could change what is found.
    above = {os.path.dirname(source) for source in sources}
    return sources | above | {str(program) for program in programs} | {_LOADER_CACHE}


def _identity(path: str) -> Identity:
    try:
        found = os.stat(path)
    except OSError:
        return None
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return (found.st_dev, found.st_ino, found.st_size, *times)
