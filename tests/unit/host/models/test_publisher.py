"""What a publisher is asked for, without one."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.policies import policy
from threegate.base.errors import GateUnavailable
from threegate.gates.fetch.retrieve.messages import NotGot
from threegate.host.models.catalogue import ModelFile
from threegate.host.models.publisher import Publisher


class Silent:
    """A log that nobody reads."""

    def announce(self, kind: str, detail: dict[str, Any]) -> None:
        pass

    def note(self, kind: str, detail: dict[str, Any]) -> None:
        pass


@pytest.mark.parametrize(("left", "first"), [(0, 0), (20, 20), (51, 0), (100, 0)])
def test_what_is_longer_than_the_file_is_not_gone_on_with(
    left: int, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def not_got(_: Publisher, _file: ModelFile, first_byte: int) -> NotGot:
        asked.append(first_byte)
        return NotGot("TG-FET-001", "not-found", "test", None, ())

    monkeypatch.setattr(Publisher, "_open", lambda _: None)
    monkeypatch.setattr(Publisher, "_ask", not_got)
    publisher: Any = Publisher
    path = tmp_path / "part"
    path.write_bytes(b"x" * left)
    file = ModelFile("0" * 64, 50, ".gguf", url="https://huggingface.co/x")
    with pytest.raises(GateUnavailable) as caught:
        publisher(policy(), None, None, Silent()).bring(file, path, lambda _: None)
    assert caught.value.code == "TG-MDL-046"
    assert asked == [first]
