"""The metadata of a model file: two lists of it, or a refusal."""

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from threegate.gates.model.front.server import NoCompletion
from threegate.gates.model.server.vocabulary import control_tokens


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def texts(*values: bytes) -> bytes:
    return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def numbers(*values: int) -> bytes:
    return struct.pack(f"<IIQ{len(values)}i", 9, 5, len(values), *values)


def gguf(*entries: tuple[bytes, bytes], version: int = 3) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, 0, len(entries))
    return head + b"".join(text(key) + value for key, value in entries)


TOKENS = (b"tokenizer.ggml.tokens", texts(b"<s>", b"the", b"<|end|>", b"<unk>"))
KINDS = (b"tokenizer.ggml.token_type", numbers(3, 1, 3, 2))
OTHERS = (
    (b"general.name", struct.pack("<I", 8) + text(b"x")),
    (b"a.flag", struct.pack("<I?", 7, True)),
    (b"a.number", struct.pack("<Iq", 11, -1)),
    (b"a.list", struct.pack("<IIQ3f", 9, 6, 3, 1, 2, 3)),
    (b"a.texts", texts(b"p", b"q")),
)


def read(data: bytes, directory: Path) -> tuple[str, ...]:
    file = directory / "m.gguf"
    file.write_bytes(data)
    return control_tokens(file)


def test_control_tokens_are_found_among_everything_else(tmp_path: Path) -> None:
    data = gguf(*OTHERS, TOKENS, *OTHERS, KINDS) + b"tensors"
    assert read(data, tmp_path) == ("<s>", "<|end|>", "<unk>")
    assert read(gguf(*OTHERS), tmp_path) == ()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GGML" + gguf()[4:],
        gguf(version=99),
        gguf(TOKENS),
        gguf(TOKENS, (KINDS[0], numbers(3))),
        gguf(TOKENS, KINDS)[:-3],
        gguf((b"x", struct.pack("<I", 77))),
        gguf((b"x", struct.pack("<IIQ", 9, 9, 1))),
        gguf((b"x", struct.pack("<IQ", 8, 2**60))),
        gguf((TOKENS[0], struct.pack("<IIQ", 9, 8, 2**60))),
        gguf((TOKENS[0], numbers(1)), KINDS),
        gguf((TOKENS[0], texts(b"\xff")), (KINDS[0], numbers(3))),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60),
    ],
)
def test_what_is_not_understood_is_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(NoCompletion) as caught:
        read(data, tmp_path)
    assert caught.value.code == "TG-MDL-016"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.integers(0, 300))
def test_any_file_is_read_or_refused(tmp_path: Path, junk: bytes, at: int) -> None:
    good = gguf(*OTHERS, TOKENS, KINDS)
    try:
        found = read(good[:at] + junk + good[at + len(junk) :], tmp_path)
    except NoCompletion:
        return
    assert all(isinstance(token, str) for token in found)
