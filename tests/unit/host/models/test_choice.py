"""Which model a policy names: that one, or an error that says what to do."""

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.models import bridged, embedded, named
from threegate.base.errors import GateUnavailable, ProtocolBroken
from threegate.host.models.choice import box_of, chosen, model_file, threads
from threegate.host.models.server import ModelServer
from threegate.sandbox.machine import find_machine


def test_the_model_of_the_policy_with_its_bounds() -> None:
    model = chosen(embedded(deadline_seconds=77))
    assert (model.kind, model.endpoint, model.deadline_seconds) == ("embedded", None, 77)
    assert model.sha256 is not None
    own = chosen(bridged(11434))
    assert (own.kind, own.sha256, own.endpoint) == ("bridge", None, "127.0.0.1:11434")
    assert threads() >= 1


@pytest.mark.parametrize(
    ("rules", "code", "hint"),
    [
        ({"kind": "none", "sha256": None}, "TG-MDL-020", "--extractive"),
        (
            {"kind": "remote", "sha256": None, "remote_host": "api.example.org"},
            "TG-MDL-022",
            "embedded",
        ),
        (
            {"kind": "bridge", "sha256": None, "endpoint": "unix:/nowhere/x.sock"},
            "TG-MDL-023",
            "start your model server",
        ),
    ],
)
# claim TG-C-141
def test_what_cannot_be_served_is_an_error_and_no_other_model(
    rules: dict[str, object], code: str, hint: str, tmp_path: Path
) -> None:
    assert chosen(embedded()).kind == "embedded", "control"
    bundle = named(**rules)
    with (
        pytest.raises(GateUnavailable) as caught,
        ModelServer.start(bundle, find_machine(), tmp_path, runtime=tmp_path),
    ):
        pass
    assert (caught.value.code, caught.value.exit_code) == (code, 69)
    assert hint in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_an_opening_that_cannot_be_said_is_an_error_and_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsayable(fd: int) -> NoReturn:
        raise ProtocolBroken(f"descriptor {fd} is malformed")

    box = replace(box_of(chosen(bridged(11434)), tmp_path), opening=unsayable)
    monkeypatch.setattr("threegate.host.models.server.box_of", lambda *_: box)
    with (
        pytest.raises(ProtocolBroken, match="is malformed"),
        ModelServer.start(bridged(11434), find_machine(), tmp_path, runtime=tmp_path),
    ):
        pass


def test_a_missing_file_names_the_command_that_brings_it(tmp_path: Path) -> None:
    model = chosen(embedded())
    with pytest.raises(GateUnavailable) as caught:
        model_file(model, tmp_path / "nothing")
    assert f"model pull {model.name}" in caught.value.hint
    place = tmp_path / f"{model.sha256}.gguf"
    place.mkdir()
    with pytest.raises(GateUnavailable):
        model_file(model, tmp_path)
    place.rmdir()
    place.symlink_to("/dev/zero")
    with pytest.raises(GateUnavailable):
        model_file(model, tmp_path)
    place.unlink()
    place.write_bytes(b"x")
    assert model_file(model, tmp_path) == place, "control"
