"""Models from a publisher that does everything wrong: the real proxy and box, the test internet.

Judged by what lies in the cache and by what the far side wrote down.
"""

import json
from typing import Any

import pytest

from tests.support.boxes import STARTERS, played_as
from tests.support.model_scenes import PART_BYTES
from tests.support.origins.publisher import DATA, FRONT, OUTSIDE, SIGNED, STORE, STORED

Told = dict[str, Any]
SCENES = "tests.support.model_scenes:publisher_scenes"
ROUNDS = -(-len(DATA) // PART_BYTES)


@pytest.fixture(scope="module", params=STARTERS)
def told(request: pytest.FixtureRequest) -> Told:
    return played_as(request.param, SCENES)


def hosts(scene: Told) -> set[str]:
    return {event["host"] for event in scene["world"] if event["event"] == "request"}


# claim TG-C-205
def test_a_model_comes_from_its_publisher_in_parts_over_a_listed_redirect(told: Told) -> None:
    scene = told["good"]
    assert (scene["whole"], scene["mode"], scene["code"]) == (True, 0o444, None)
    assert scene["counted"] == len(DATA), "progress counts each byte once"
    assert scene["said"] == []
    assert hosts(scene) == {FRONT, STORE}
    asked = [event for event in scene["world"] if event["event"] == "request"]
    assert len(asked) == 2 * ROUNDS
    names = [name for event in asked for name, _ in event["headers"]]
    assert "cookie" not in names
    assert "authorization" not in names


# claim TG-C-205
def test_the_log_says_where_from_and_the_proxy_says_every_host(told: Told) -> None:
    log = told["good"]["log"]
    kinds = [kind for kind, _ in log]
    asked, ended = dict(log)["model.pull"], dict(log)["model.pulled"]
    assert (asked["from"], asked["bytes"]) == (0, len(DATA))
    assert kinds.index("model.pull") < kinds.index("proxy.decision") < kinds.index("model.pulled")
    assert (ended["hosts"], ended["bytes"]) == ([FRONT, STORE], len(DATA))
    decided = [data for kind, data in log if kind == "proxy.decision"]
    assert {data["host"] for data in decided} == {FRONT, STORE}
    assert all("policy/fetch.policy.md:" in data["rule"] for data in decided)
    assert SIGNED not in json.dumps(log), "a signed address is nobody's business"


# claim TG-C-205
def test_a_redirect_to_a_host_outside_the_list_is_not_followed(told: Told) -> None:
    scene = told["outside"]
    assert OUTSIDE not in hosts(scene)
    assert OUTSIDE not in {e.get("name") for e in scene["world"]}, "its name is not asked for"
    assert hosts(scene) == {FRONT, STORE}, "control: up to there it was followed"
    [said] = scene["said"]
    assert f'redirects to "{OUTSIDE}", which no rule covers' in said
    assert said.endswith("; continuing with packages")
    assert scene["whole"], "the very same bytes came from the next source"


# claim TG-C-206
def test_other_bytes_of_the_right_length_are_dropped_and_the_next_source_is_asked(
    told: Told,
) -> None:
    scene = told["wrong-bytes"]
    assert "its digest is not the pinned one; continuing with packages" in scene["said"][0]
    assert (scene["whole"], scene["code"]) == (True, None)
    alone = told["alone"]
    assert (alone["whole"], alone["code"], alone["left"]) == (False, "TG-MDL-041", None)
    assert alone["mode"] is None, "nothing has the name of the model"


REFUSED = {
    "no-parts": "larger than",
    "shorter": "its file has another length",
    "longer": "its file has another length",
    "other-part": "another part than the one that was asked for",
    "lying-length": "larger than",
    "endless": "larger than",
    "unnamed-part": "a part that does not say which one it is",
}


@pytest.mark.parametrize("name", REFUSED)
# claim TG-C-206
def test_a_publisher_that_lies_about_its_file_is_refused_for_the_right_reason(
    told: Told, name: str
) -> None:
    scene = told[name]
    assert {*STORED} - {*REFUSED} == {
        *("good", "wrong-bytes", "cut-once", "stalls-once", "outside", "gone")
    }, "nothing left out"
    assert (scene["code"], scene["whole"]) == ("TG-MDL-046", False)
    assert REFUSED[name] in scene["said"][-1]
    assert STORE in hosts(scene), "control: it was asked"
    assert (scene["left"] or 0) <= len(DATA), "never longer than the pinned file"


def test_what_is_not_there_comes_from_packages_and_the_command_says_so(told: Told) -> None:
    scene = told["gone"]
    [said] = scene["said"]
    assert "the publisher did not serve it: the server knows no such thing: status 404" in said
    assert said.endswith("; continuing with packages")
    assert scene["whole"]


def test_a_connection_that_breaks_off_is_tried_again(told: Told) -> None:
    scene = told["cut-once"]
    assert (scene["whole"], scene["said"]) == (True, [])
    asked = [event for event in scene["world"] if event["event"] == "request"]
    assert len(asked) == 2 * (ROUNDS + 1), "one part was asked for twice"


# claim TG-C-206
def test_a_killed_pull_goes_on_where_it_was(told: Told) -> None:
    scene = told["stalls-once"]
    assert scene["kept"] == 2 * PART_BYTES, "control: two parts were there when it was killed"
    assert (scene["whole"], scene["code"]) == (True, None)
    starts = [int(text.removeprefix("bytes=").partition("-")[0]) for text in scene["ranges"]]
    wanted = [number * PART_BYTES for number in range(ROUNDS)]
    assert starts == [*wanted[:3], *wanted[2:]], "nothing that was there was asked for again"
