"""The functions over all formats: names, content digests, labels, schema."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from tests.support.samples import NONCE, fetch_request, one_of_each, tool_request
from threegate.artifacts import registry
from threegate.artifacts.codec import sections_of
from threegate.artifacts.labels import Labels
from threegate.artifacts.limits import MAX_FRONT_MATTER_CHARS
from threegate.artifacts.reasons import ArtifactReason
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted

EACH = one_of_each()


def code_of(data: bytes) -> str:
    with pytest.raises(ArtifactRejected) as refusal:
        registry.parse(Untrusted(data))
    return refusal.value.code


@pytest.mark.parametrize("prefix", registry.FORMATS)
def test_sample_is_read_spelled_and_checked(prefix: str) -> None:
    data = registry.emit(EACH[prefix])
    assert registry.format_of(Untrusted(data)).prefix == prefix
    assert registry.parse(Untrusted(data)) == EACH[prefix]
    registry.FORMATS[prefix].check(EACH[prefix])


@pytest.mark.parametrize("prefix", registry.FORMATS)
def test_artifact_one_byte_over_its_limit_is_rejected(prefix: str) -> None:
    data = registry.emit(EACH[prefix])
    limit = registry.FORMATS[prefix].max_bytes
    assert code_of(data + b"x" * (limit - len(data))) != ArtifactReason.OVERSIZE.code, (
        "control: at limit"
    )
    assert code_of(data + b"x" * (limit + 1 - len(data))) == ArtifactReason.OVERSIZE.code


def test_huge_unknown_file_is_refused_for_its_size() -> None:
    huge = b"x" * (registry.MAX_ARTIFACT_BYTES + 1)
    assert code_of(huge) == ArtifactReason.OVERSIZE.code
    assert code_of(huge[1:]) == ArtifactReason.UNKNOWN_FORMAT.code


def test_front_matter_has_a_limit_of_its_own() -> None:
    data = registry.emit(EACH["rp"])
    room = MAX_FRONT_MATTER_CHARS - data.decode("utf-8").index("\n---\n\n")
    title = b'title: "'
    assert title in data
    within = data.replace(title, title + b"x" * room)
    over = data.replace(title, title + b"x" * (room + 1))
    assert code_of(within) == ArtifactReason.OUT_OF_RANGE.code, (
        "at the limit: only the title is too long"
    )
    assert code_of(over) == ArtifactReason.OVERSIZE.code


def test_a_format_reads_no_other_kind() -> None:
    data = registry.emit(EACH["rp"])
    with pytest.raises(ArtifactRejected) as refusal:
        registry.FORMATS["fr"].parse(Untrusted(data))
    assert refusal.value.code == ArtifactReason.UNKNOWN_KEY.code


def test_a_format_reads_no_other_version() -> None:
    data = registry.emit(EACH["rp"]).replace(b'"rp/1"', b'"rp/2"')
    with pytest.raises(ArtifactRejected) as refusal:
        registry.FORMATS["rp"].parse(Untrusted(data))
    assert refusal.value.code == ArtifactReason.UNKNOWN_FORMAT.code


@pytest.mark.parametrize(
    ("spelled", "words"),
    [
        (b"3, 4", "raw_bytes has something after its value"),
        (b"-0", "raw_bytes is not in canonical JSON spelling"),
        (b"x", "raw_bytes is not a JSON value"),
        (b"NaN", "raw_bytes is not a JSON value"),
        (b"-1", "raw_bytes is not within 0..9007199254740991"),
    ],
)
def test_rejection_says_which_line_and_why(spelled: bytes, words: str) -> None:
    data = registry.emit(EACH["rp"]).replace(b"raw_bytes: 3", b"raw_bytes: " + spelled)
    with pytest.raises(ArtifactRejected, match=words):
        registry.parse(Untrusted(data))


def test_content_digest_forgets_the_stamps_and_nothing_else() -> None:
    for request in (fetch_request(), tool_request()):
        again = replace(request, created="2027-01-01T00:00:00Z", nonce=NONCE[::-1])
        assert registry.id_of(again) != registry.id_of(request)
        assert registry.content_digest(again) == registry.content_digest(request)
        other = replace(request, confidentiality="confidential")
        assert registry.content_digest(other) != registry.content_digest(request)


def test_content_digest_is_not_the_digest_of_anything_stored() -> None:
    request = tool_request()
    assert registry.content_digest(request) not in registry.id_of(request)


def test_labels_of_each_kind() -> None:
    assert registry.labels_of(EACH["ap"]) == Labels("operator", "public")
    assert registry.labels_of(EACH["rp"]) == Labels("external", "public")
    assert registry.labels_of(EACH["tr"]) == Labels("operator", "internal")


@pytest.mark.parametrize("prefix", registry.FORMATS)
def test_every_field_is_a_key_or_a_section(prefix: str) -> None:
    form = registry.FORMATS[prefix]
    named = [*form.keys[1:], *sections_of(form.kind)]
    assert named == [item.name for item in fields(form.kind)]


@pytest.mark.parametrize("prefix", registry.FORMATS)
def test_schema_names_exactly_the_keys_in_order(prefix: str) -> None:
    schema = registry.schema_of(prefix)
    assert tuple(schema["properties"]) == tuple(schema["required"]) == registry.FORMATS[prefix].keys
    assert schema["additionalProperties"] is False
    assert schema["properties"]["format"] == {"const": f"{prefix}/1"}
    assert json.loads(json.dumps(schema)) == schema


def test_packets_have_no_field_for_instructions() -> None:
    words = {"instruction", "instructions", "command", "code", "prompt", "task", "run"}
    assert not words & set(registry.FORMATS["rp"].keys)
    assert "code" in {item.name for item in fields(registry.FORMATS["tr"].kind)}, "control"


@pytest.mark.parametrize("prefix", registry.FORMATS)
def test_text_without_a_utf_8_spelling_is_rejected_on_the_way_out(prefix: str) -> None:
    form = registry.FORMATS[prefix]
    name, section = next(iter(form.sections.items()))
    half: Any = Untrusted("\ud800")
    change: dict[str, Any] = {name: half if section.most_texts is None else (half,)}
    sample: Any = EACH[prefix]
    broken = replace(sample, **change)
    form.check(EACH[prefix])
    with pytest.raises(ArtifactRejected) as refusal:
        form.check(broken)
    assert refusal.value.code == ArtifactReason.NOT_UTF8.code


# claim TG-C-03
def test_free_text_stays_in_its_box() -> None:
    packet = EACH["rp"]
    assert "toughness" not in repr(packet)
    assert "doi" not in repr(packet.parents())
    assert "<untrusted" in repr(packet)
