"""The manifest of an image: one spelling, and a reason for every other."""

import contextlib
import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.images import FILES, manifest_of
from threegate.base import canonical
from threegate.base.errors import ArtifactRejected
from threegate.host.images.manifest import MAX_MANIFEST_BYTES, parse_manifest

GOOD = manifest_of(FILES)


def changed(**fields: Any) -> bytes:
    return canonical.encode({**canonical.decode(GOOD.data), **fields})


def files_with(**fields: Any) -> bytes:
    return changed(files={**canonical.decode(GOOD.data)["files"], **fields})


def test_a_manifest_is_read_and_spelled_alike() -> None:
    assert parse_manifest(GOOD.data) == GOOD
    assert GOOD.digest == hashlib.sha256(GOOD.data).hexdigest()
    assert GOOD.size == sum(map(len, FILES.values()))


REFUSED = {
    "empty": b"",
    "spaces": GOOD.data.replace(b",", b", "),
    "twice": GOOD.data.replace(b"{", b'{"agent_sha256":"x",', 1),
    "more": changed(more=1),
    "format": changed(format="image/2"),
    "machine": changed(architecture="arm64"),
    "no layers": changed(layers=[]),
    "layers no list": changed(layers="base"),
    "layer twice": changed(layers=["base", "base"]),
    "layer without file": changed(layers=["base", "agent", "other"]),
    "file without layer": changed(layers=["base"]),
    "layer as path": changed(layers=["../base", "agent"]),
    "too many": changed(layers=[f"l{n}" for n in range(9)]),
    "another file": files_with(**{"../../evil": {"sha256": "0" * 64, "size": 1}}),
    "no digest": files_with(kernel={"sha256": "x", "size": 1}),
    "no size": files_with(kernel={"sha256": "0" * 64, "size": 0}),
    "size as truth": files_with(kernel={"sha256": "0" * 64, "size": True}),
    "size as text": files_with(kernel={"sha256": "0" * 64, "size": "1"}),
    "huge": files_with(kernel={"sha256": "0" * 64, "size": 2**33}),
    "no part": files_with(kernel=[]),
    "no files": changed(files=[]),
    "version": changed(kernel_version="6.1 & more"),
    "lock": changed(lock_sha256=None),
    "long": b" " * (MAX_MANIFEST_BYTES + 1),
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_is_not_exactly_a_manifest_is_refused(how: str) -> None:
    parse_manifest(changed())  # control
    with pytest.raises(ArtifactRejected) as caught:
        parse_manifest(REFUSED[how])
    assert caught.value.code == "TG-IMG-010"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.sampled_from(sorted(canonical.decode(GOOD.data))), VALUES)
def test_any_value_in_any_field_is_refused_or_read_as_it_is(field: str, value: Any) -> None:
    data = changed(**{field: value})
    with contextlib.suppress(ArtifactRejected):
        assert parse_manifest(data).data == data


@given(st.binary())
def test_any_bytes_are_a_manifest_or_refused(data: bytes) -> None:
    with pytest.raises(ArtifactRejected):
        parse_manifest(data)
