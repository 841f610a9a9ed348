"""Asking for runs in a real browser, field by field: held is what the command line would hold."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_cli_request import BEYOND, enable_era
from tests.support.browser import Tab
from tests.support.cli import write
from tests.support.console import Scene, scene
from tests.support.origins.simple import HOST
from tests.support.run_scenes import TEXTS

OWN = ("created", "nonce")  # of each request


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("console"), "--no-run") as found:
        enable_era(found.cli)
        file = found.root / "policy" / "tool-exec.policy.md"
        text = file.read_text("utf-8")
        for old, new in TEXTS:
            assert old in text
            text = text.replace(old, new, 1)
        file.write_text(text, "utf-8")
        found.cli("policy", "apply", "--yes")
        yield found


def fill(served: Scene, fields: dict[str, str], **files: Path) -> Tab:
    """Fill the form in as a person does, and send it."""
    tab = served.tab("/run")
    for number in range(1, int(tab.js("document.querySelectorAll('.more').length")) + 1):
        tab.click(f".more:nth-of-type({number}) summary")
    assert tab.js("[...document.querySelectorAll('.more')].every((one) => one.open)")
    for name, value in fields.items():
        field = f"main [name={name}]"
        if tab.js(f"document.querySelector('{field}').tagName") == "SELECT":
            tab.js(f"document.querySelector('{field}').value = '{value}'")
        else:
            tab.click(field)
            tab.type(value)
    for number, (name, file) in enumerate(files.items(), 1):
        tab.choose(f"[name=file-{number}]", file)
        tab.js(f"document.querySelector('[name=name-{number}]').value = '{name}'")
    tab.acts(lambda: tab.click("main form button[type=submit]"))
    return tab


def made(served: Scene, tab: Tab) -> dict[str, Any]:
    """Return what is held, without what is its own."""
    assert "/request/tr-" in tab.url, tab.text()
    request_id = tab.url.rpartition("/")[2]
    assert served.state(request_id) == "held"
    return fields_of(served, request_id)


def fields_of(served: Scene, request_id: str) -> dict[str, Any]:
    shown = served.cli("request", "show", request_id, "--json").json
    found = {name: value for name, value in shown["fields"].items() if name not in OWN}
    return {**found, **shown["sections"]}


def by_command(served: Scene, *words: str) -> dict[str, Any]:
    return fields_of(served, served.cli("request", "new", *words, "--json").json["id"])


def test_a_lite_run_with_files_is_what_the_command_line_makes(served: Scene) -> None:
    rows = write(served.cli.base / "rows.json", b"[1, 2]")
    note = write(served.cli.base / "note.txt", b"of mine")
    code = write(served.cli.base / "code.py", b"len(rows) + len(note)\n")
    tab = fill(
        served,
        {
            "purpose": "count",
            "code": "len(rows) + len(note)\n",
            "limits": "wall_ms=5s\nmemory_bytes=128MiB",
            "risks": "none at all",
            "profile": "pure",
            "confidentiality": "confidential",
        },
        rows=rows,
        note=note,
    )
    words = ["--purpose", "count", "--code", str(code), "--input", f"rows={rows}"]
    words += ["--input", f"note={note}", "--limit", "wall_ms=5s", "--limit", "memory_bytes=128MiB"]
    words += ["--risks", "none at all", "--ring", "pure", "--confidentiality", "confidential"]
    found = made(served, tab)
    assert found == by_command(served, *words)
    assert (found["backend"], found["confidentiality"]) == ("monty", "confidential")


# claim TG-C-289
def test_a_heavy_command_with_a_gateway_is_what_the_command_line_makes(served: Scene) -> None:
    names = write(served.cli.base / "names.txt", b"b\na\n")
    fields = {
        "purpose": "sorted",
        "backend": "era",
        "why": "binary",
        "profile": "tools",
        "argv": "/usr/bin/sort\n-r\n/in/names",
    }
    words = ["--purpose", "sorted", "--backend", "era", "--why", "binary", "--ring", "tools"]
    words += ["--arg", "/usr/bin/sort", "--arg=-r", "--arg", "/in/names"]
    found = made(served, fill(served, fields, names=names))
    assert found == by_command(served, *words, "--input", f"names={names}")
    assert found["argv"] == ["/usr/bin/sort", "-r", "/in/names"]
    code = write(served.cli.base / "ask.py", b"import json\n")
    fields = {
        "purpose": "ask a host",
        "code": "import json\n",
        "backend": "era",
        "why": "files",
        "outputs": "a=1KiB",
        "profile": "online",
        "hosts": HOST,
        "up_bytes": "1KiB",
        "down_bytes": "1MiB",
    }
    words = ["--purpose", "ask a host", "--backend", "era", "--why", "files", "--code", str(code)]
    words += ["--output", "a=1KiB", "--allow-host", HOST, "--ring", "online"]
    words += ["--up-bytes", "1KiB", "--down-bytes", "1MiB"]
    found = made(served, fill(served, fields))
    assert found == by_command(served, *words)
    assert found["network"]["hosts"] == [HOST]


def test_montys_own_refusal_goes_with_an_escalation(served: Scene) -> None:
    beyond = {"purpose": "a socket", "code": BEYOND.decode()}
    tab = fill(served, beyond)
    assert "Nothing was asked for" in tab.text()
    assert "Monty cannot express line" in tab.text()
    assert tab.js("document.getElementById('code').value") == beyond["code"], "it is still there"
    heavy = {"backend": "era", "why": "not-expressible"}
    found = made(served, fill(served, {**beyond, **heavy}))
    code = write(served.cli.base / "beyond.py", BEYOND)
    words = ["--purpose", "a socket", "--code", str(code)]
    words += ["--backend", "era", "--why", "not-expressible"]
    assert found == by_command(served, *words)
    refusal = found["why_not_monty"]["refusal"]
    assert refusal["construct"]
    tab = fill(served, {"purpose": "a sum", "code": "1 + 1\n", **heavy})
    assert "Monty can express this code, so era is not for it" in tab.text()
