"""Which modules stay in view beside the allowed ones, and which paths are hidden."""

from pathlib import Path

import pytest

from threegate.gates.tool_exec.era.guest import view
from threegate.gates.tool_exec.era.guest.view import closure

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


RECORD: dict[str, tuple[list[str], list[str]]] = {
    "tables": (["tables.core", "os", "ctypes"], ["http.client"]),
    "tables.core": ([], ["pickle"]),
    "os": (["stat"], ["subprocess"]),
    "stat": ([], []),
    "ctypes": (["_ctypes"], []),
    "_ctypes": ([], []),
    "pickle": (["copyreg"], []),
    "copyreg": ([], []),
    "http": ([], []),
    "http.client": (["socket"], []),
    "socket": ([], []),
    "subprocess": (["signal"], []),
    "signal": ([], []),
    "smtplib": (["socket"], []),
    "encodings": ([], []),
    "encodings.utf_8": ([], []),
    "datetime": ([], []),
    "_strptime": ([], []),
}


def kept(*allowed: str, denied: tuple[str, ...] = (), loaded: tuple[str, ...] = ()) -> set[str]:
    found = closure(RECORD, allowed=allowed, denied=denied, loaded=loaded)
    return set(found) - {"encodings", "encodings.utf_8"}


def test_an_allowed_package_stays_with_all_it_imports_at_once_and_later() -> None:
    whole = {"tables", "tables.core", "os", "stat", "ctypes", "_ctypes", "pickle", "copyreg"}
    assert kept("tables") == whole | {"http", "http.client", "socket"}


def test_of_what_it_needs_only_what_is_loaded_at_once_is_followed() -> None:
    assert "subprocess" not in kept("tables"), "os would import it in a function"
    assert {"subprocess", "signal"} <= kept("os"), "control: os itself is allowed"


def test_what_is_denied_stays_only_if_it_is_in_memory() -> None:
    denied = ("http", "ctypes", "socket")
    assert not {"http.client", "ctypes", "_ctypes", "socket"} & kept("tables", denied=denied)
    assert {"ctypes", "_ctypes"} <= kept("tables", denied=denied, loaded=("ctypes",))


def test_before_anything_is_loaded_what_loading_needs_stays_though_it_is_denied() -> None:
    denied = ("ctypes", "http")
    found = closure(RECORD, allowed=("tables",), denied=denied, loaded=(), complete=False)
    assert {"ctypes", "_ctypes"} <= found, "tables imports it when it is loaded"
    assert "http.client" not in found, "only a function does"


def test_nothing_else_stays() -> None:
    assert kept() == set()
    assert "smtplib" not in kept("tables", loaded=("os", "unheard_of"))
    assert closure(RECORD, allowed=(), denied=(), loaded=()) == {"encodings", "encodings.utf_8"}


def test_what_compiled_code_loads_late_is_known() -> None:
    assert "_strptime" in kept("datetime")
    more = {"numpy": ([], []), "secrets": (["hmac"], []), "hmac": ([], []), **RECORD}
    found = closure(more, allowed=("numpy", "pandas"), denied=(), loaded=())
    assert {"secrets", "hmac"} <= found, "numpy's compiled code asks for it"
    assert "dateutil.easter" not in found, "nor is there more than the image has"
