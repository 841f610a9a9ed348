"""What the formats promise to others: valid YAML, a JSON Schema, pages that name every rule."""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import vectors
from tests.support.jsonschema import problems
from tests.support.policies import policy
from tests.support.vectors import Vector
from threegate.artifacts.draft import LANES
from threegate.artifacts.reasons import ArtifactReason
from threegate.artifacts.registry import FORMATS, schema_of

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "formats"
STORED = [vector for vector in vectors.load("accept") if not vector.is_draft]
WRONG_VALUES = ("TG-ART-006", "TG-ART-007", "TG-ART-010", "TG-ART-011", "TG-ART-012", "TG-ART-013")


def front_matter(data: bytes) -> dict[str, Any]:
    """Read front matter as a stranger would: lines of `key: JSON`."""
    lines = data.decode("utf-8").split("\n---\n", 1)[0].split("\n")[1:]
    pairs = [line.split(": ", 1) for line in lines]
    return {key: json.loads(value) for key, value in pairs}


@pytest.mark.parametrize("vector", STORED, ids=lambda vector: vector.name)
def test_front_matter_fits_the_exported_schema(vector: Vector) -> None:
    values = front_matter(vector.data)
    prefix = values["format"].partition("/")[0]
    assert list(problems(values, schema_of(prefix))) == []


@pytest.mark.parametrize("vector", STORED, ids=lambda vector: vector.name)
def test_front_matter_is_yaml_for_everybody_else(vector: Vector) -> None:
    text = vector.data.decode("utf-8").split("\n---\n", 1)[0].removeprefix("---\n")
    for loader in (yaml.SafeLoader, yaml.CSafeLoader):
        found = yaml.load(text, loader)  # noqa: S506  neither builds objects
        assert found == front_matter(vector.data)
        assert list(found) == list(front_matter(vector.data))


def test_schema_refuses_wrong_values_too() -> None:
    refused, read = 0, 0
    for vector in vectors.load("reject"):
        if vector.expect in WRONG_VALUES and not vector.is_draft:
            try:
                values = front_matter(vector.data)
                prefix = str(values["format"]).partition("/")[0]
            except ValueError:
                continue
            read += 1
            refused += bool(list(problems(values, schema_of(prefix))))
    # A schema cannot count the characters of the body or look into the calendar.
    assert refused >= read - 6
    assert refused > 40


def test_schema_checker_knows_every_keyword_or_says_so() -> None:
    with pytest.raises(ValueError, match="nobody checks"):
        list(problems(1, {"multipleOf": 2}))


@pytest.mark.parametrize("prefix", FORMATS)
def test_every_format_has_a_page_with_its_tables(prefix: str) -> None:
    page = (PAGES / f"{FORMATS[prefix].title.lower().replace(' ', '-')}.md").read_text("utf-8")
    for generator in ("fields", "sections"):
        assert f"<!-- generated: format-{generator} {prefix} -->" in page
    for key in FORMATS[prefix].keys:
        assert f"| `{key}` |" in page
    assert f'format: "{FORMATS[prefix].name}"' in page, "an example"


@pytest.mark.parametrize("reason", ArtifactReason, ids=lambda reason: reason.code)
def test_every_code_is_explained(reason: ArtifactReason) -> None:
    assert f"| {reason.code} |" in (PAGES / "README.md").read_text("utf-8")


def test_links_between_the_pages_lead_somewhere() -> None:
    links = 0
    for page in [*PAGES.glob("*.md"), vectors.ROOT / "README.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
            links += 1
    assert links > 10


@pytest.mark.parametrize("backend", LANES)
def test_defaults_of_a_draft_are_those_of_the_default_policy(backend: str) -> None:
    shipped, lane = policy(), ("tool-exec", "lanes", backend)
    limits = {key: shipped.integer(*lane, "default", key) for key in asdict(LANES[backend].limits)}
    assert asdict(LANES[backend].limits) == limits
    assert LANES[backend].profile == shipped.text(*lane, "default_profile")
