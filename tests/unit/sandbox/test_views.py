"""What a box sees: made anew when a file in it is another one, and without what is not here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.boxes import said, start_with
from threegate.base.errors import GateUnavailable
from threegate.sandbox import view
from threegate.sandbox import view as module
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import CORE, FETCH_NORMALIZE, Profile
from threegate.sandbox.session import run_gate
from threegate.sandbox.view import Mount, View, Views


class Maker:
    """Makes views of one file and counts."""

    def __init__(self, file: Path) -> None:
        self.file, self.made = file, 0

    def __call__(self, _profile: Profile, _programs: tuple[Path, ...]) -> View:
        self.made += 1
        return View(
            (Mount(str(self.file), "/x"), Mount("", "/hidden")), "/rt/py", "/bin/ld", "/ld", ()
        )


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    file = tmp_path / "library.so"
    file.write_bytes(b"one")
    made = Maker(file)
    monkeypatch.setattr(module, "view_of", made)
    return made


def test_a_view_is_made_once(maker: Maker) -> None:
    views = Views()
    assert views.of(CORE) is views.of(CORE)
    assert maker.made == 1


def test_each_profile_and_each_program_has_its_own(maker: Maker, tmp_path: Path) -> None:
    views = Views()
    for profile, programs in ((CORE, ()), (FETCH_NORMALIZE, ()), (CORE, (tmp_path / "monty",))):
        views.of(profile, programs)
        views.of(profile, programs)
    assert maker.made == 3


def _rewritten(file: Path) -> None:
    file.write_bytes(b"longer")


def _replaced(file: Path) -> None:
    before = file.stat()
    file.with_name("new").write_bytes(b"two")
    os.utime(file.with_name("new"), ns=(before.st_atime_ns, before.st_mtime_ns))
    file.with_name("new").replace(file)


def _removed(file: Path) -> None:
    file.unlink()


def _joined(file: Path) -> None:
    file.with_name("another.so").write_bytes(b"")


@pytest.mark.parametrize("change", [_rewritten, _replaced, _removed, _joined])
def test_a_changed_file_makes_it_anew(maker: Maker, change: object) -> None:
    assert callable(change)
    views = Views()
    views.of(CORE)
    change(maker.file)
    views.of(CORE)
    assert maker.made == 2


def test_a_changed_program_makes_it_anew(maker: Maker, tmp_path: Path) -> None:
    program = tmp_path / "elsewhere" / "monty"
    program.parent.mkdir()
    views = Views()
    program.write_bytes(b"one")
    views.of(CORE, (program,))
    program.write_bytes(b"three")
    views.of(CORE, (program,))
    assert maker.made == 2


def test_a_real_view_is_the_one_made_without_keeping() -> None:
    from threegate.sandbox.view import view_of

    views = Views()
    assert views.of(CORE) == view_of(CORE)
    assert views.of(CORE) is views.of(CORE)


def test_a_library_that_is_not_on_this_machine_is_named(tmp_path: Path) -> None:
    """Left out without a word, it would end the box with the name of another one."""
    (tmp_path / "none.c").write_text("", "utf-8")
    gone, user = tmp_path / "libgone.so", tmp_path / "user.so"
    make = ["cc", "-shared", str(tmp_path / "none.c"), "-o"]
    subprocess.run([*make, str(gone)], check=True)
    linked = ["-Wl,--no-as-needed", f"-L{tmp_path}", "-lgone", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run([*make, str(user), *linked], check=True)
    loader = view._interpreter_of(Path(sys.executable).resolve())
    assert f"{view.LIBRARIES}/libgone.so" in view._libraries([user], loader), "control"
    gone.unlink()
    with pytest.raises(GateUnavailable) as caught:
        view._libraries([user], loader)
    assert caught.value.code == "TG-BOX-005"
    assert "user.so needs libgone.so" in caught.value.message


def test_a_box_starts_without_a_device_this_machine_does_not_have(tmp_path: Path) -> None:
    code = (
        "import os\ndef main():\n    os.open('/dev/null', os.O_RDWR)\n    write_message(3, b'on')\n"
    )
    start = start_with(tmp_path, code, devices=("null", "not-of-this-machine"))
    assert said(run_gate(find_machine(), start, b"")) == b"on"
    without = start_with(tmp_path, code, devices=("not-of-this-machine",))
    assert said(run_gate(find_machine(), without, b"")) == b"", "control: only what is named"
