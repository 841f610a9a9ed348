"""Which paths vanish from Python's directories."""

from pathlib import Path

import pytest

from threegate.gates.tool_exec.era.guest import view

FILES = (
    *("json/__init__.py", "json/decoder.py", "json/__pycache__/decoder.cpython-311.pyc"),
    *("urllib/__init__.py", "urllib/parse.py", "urllib/request.py"),
    *("urllib/__pycache__/parse.cpython-311.pyc", "urllib/__pycache__/request.cpython-311.pyc"),
    *("smtplib.py", "os.py", "__pycache__/smtplib.cpython-311.pyc"),
    *("__pycache__/os.cpython-311.pyc", "email/__init__.py", "run.pth", "urllib/data/table.txt"),
    *("lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so", "lib-dynload/_json.cpython-311.so"),
)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    places = (str(tmp_path), str(tmp_path / "lib-dynload"), str(tmp_path / "absent"))
    monkeypatch.setattr(view, "PLACES", places)
    return tmp_path


def test_only_what_is_kept_is_left(library: Path) -> None:
    kept = {"json", "json.decoder", "os", "urllib", "urllib.parse", "_json"}
    gone = {str(Path(path).relative_to(library)) for path in view.hidden(kept, {"json"})}
    assert gone == {
        *("email", "smtplib.py", "__pycache__/smtplib.cpython-311.pyc", "run.pth"),
        *("urllib/request.py", "urllib/__pycache__/request.cpython-311.pyc"),
        "lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so",
    }


def test_an_allowed_package_is_left_whole(library: Path) -> None:
    gone = {str(Path(path).relative_to(library)) for path in view.hidden(set(), {"urllib"})}
    assert not any(path.startswith("urllib") for path in gone)
    assert {"json", "os.py", "smtplib.py"} <= gone
