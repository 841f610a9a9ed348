"""Programs of an image by their bytes."""

import hashlib
from pathlib import Path

import pytest

from tests.unit.host.images.test_unpacked import AGENT, BASE, LAYERS, image
from threegate.base.errors import GateUnavailable
from threegate.host.images.programs import digests_in

RUN, ONE = "/usr/bin/run", "/etc/one"


# claim TG-C-282
def test_a_program_is_known_by_its_bytes_and_the_upper_layer_counts(tmp_path: Path) -> None:
    found = digests_in(image(tmp_path, {**BASE}, {**AGENT}), LAYERS, (RUN, ONE, "/bin", "/no"))
    assert found == {
        RUN: hashlib.sha256(b"#!run").hexdigest(),
        ONE: hashlib.sha256(b"1").hexdigest(),
    }, "links and what is not there have none"
    over = image(tmp_path, {**BASE}, {**AGENT, "usr/bin/run": b"other"})
    assert digests_in(over, LAYERS, (RUN,)) == {RUN: hashlib.sha256(b"other").hexdigest()}
    assert digests_in(over, LAYERS[:1], (RUN,)) == {RUN: hashlib.sha256(b"#!run").hexdigest()}


def test_a_layer_that_is_none_has_no_programs(tmp_path: Path) -> None:
    broken = image(tmp_path, {**BASE}, {**AGENT})
    broken.layers["base"].chmod(0o600)
    broken.layers["base"].write_bytes(b"x" * 8192)
    with pytest.raises(GateUnavailable, match="layer base"):
        digests_in(broken, LAYERS, (RUN,))
