"""The shipped policy: what it promises in prose is what it does."""

import re
from pathlib import Path

import pytest

from tests.support import models
from tests.support.policies import policy, policy_files
from threegate.artifacts.ids import PREFIXES
from threegate.artifacts.tool_request import BACKENDS, FUNCTIONS, GATEWAY, NO_NETWORK, RunLimits
from threegate.base.forms import CONFIDENTIALITY, KINDS
from threegate.gates.run_gateway.messages import METHODS
from threegate.handoff.states import ARTIFACT_STATES
from threegate.policy.compiler import decode, default_files, find_block
from threegate.policy.decide import Execution, may_draft, may_execute, may_fetch, may_use_engine
from threegate.policy.decision import Allow, Ask, Deny
from threegate.policy.sections import SECTIONS, tool_exec

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
POLICY = policy()

SOURCES = {
    "Crossref": "https://api.crossref.org/works/10.5555%2F12345678?mailto=a@b.org",
    "DataCite": "https://api.datacite.org/dois/10.48550%2FarXiv.1706.03762",
    "DOI agency": "https://doi.org/ra/10.1000",
    "arXiv API": "https://export.arxiv.org/api/query?id_list=1706.03762",
    "arXiv": "https://arxiv.org/pdf/1706.03762",
    "OpenAlex": "https://api.openalex.org/works/doi:10.1000%2F182",
    "PubMed": "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/efetch.fcgi?db=pubmed&id=1",
    "Europe PMC": "https://www.ebi.ac.uk/europepmc/webservices/rest/search?query=DOI:%2210.1%22",
    "Semantic Scholar": "https://api.semanticscholar.org/graph/v1/paper/DOI:10.1000%2F182",
    "Unpaywall": "https://api.unpaywall.org/v2/10.1000%2F182?email=a@b.org",
}


def test_repository_shows_the_files_that_are_shipped() -> None:
    shown = ROOT / "policy"
    assert {path.name for path in shown.iterdir()} == set(default_files())
    for name, data in default_files().items():
        assert (shown / name).read_bytes() == data


@pytest.mark.parametrize("name", sorted(default_files()))
def test_every_file_is_prose_around_its_block(name: str) -> None:
    text = decode(name, default_files()[name])
    block = find_block(name, text)
    prose = text.replace(block.text, "")
    assert len(prose.split()) > 120, "real prose, not a heading"
    assert text.startswith("# ")
    assert not text.rstrip().endswith("```"), "a closing word after the block"


@pytest.mark.parametrize("source", SOURCES)
def test_scholarly_source_is_allowed_to_the_operator_and_asked_for_drafts(source: str) -> None:
    assert isinstance(may_fetch(POLICY, SOURCES[source], integrity="operator"), Allow)
    assert isinstance(may_fetch(POLICY, SOURCES[source]), Ask)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/",
        "https://crossref.org/",
        "https://evil.api.crossref.org/",
        "https://huggingface.co/x",  # set-up downloads are another list
        "https://169.254.169.254/latest/meta-data/",
        "https://metadata.google.internal/",
        "https://localhost/",
    ],
)
# claim TG-C-05
def test_everything_else_is_denied(url: str) -> None:
    listed = may_fetch(POLICY, "https://api.crossref.org/works", integrity="operator")
    assert isinstance(listed, Allow), "control"
    assert isinstance(may_fetch(POLICY, url, integrity="operator"), Deny)


def test_no_rate_is_above_what_the_host_asks_for() -> None:
    # Requests per minute without a key or contact, from the hosts' own terms.
    terms = {"api.crossref.org": 300, "eutils.ncbi.nlm.nih.gov": 180, "www.ebi.ac.uk": 600}
    for host, most in terms.items():
        assert POLICY.integer("fetch", "hosts", host, "rate_per_minute") <= most
    arxiv = [host for host in POLICY.words("fetch", "hosts") if host.endswith("arxiv.org")]
    assert len(arxiv) == 2
    rates = [POLICY.integer("fetch", "hosts", host, "rate_per_minute") for host in arxiv]
    assert sum(rates) <= 20, "one request in three seconds over all hosts of arXiv"
    assert all(POLICY.integer("fetch", "hosts", host, "concurrency") == 1 for host in arxiv)


def test_nothing_identifies_the_operator_before_they_say_so() -> None:
    assert POLICY.value("fetch", "contact") is None
    assert POLICY.words("fetch", "trust_anchors") == ("system",)


def run(**changes: object) -> Execution:
    values: dict[str, object] = {
        "backend": "monty",
        "limits": {},
        "profile": POLICY.text("tool-exec", "lanes", "monty", "default_profile"),
        "integrity": "external",
        "confidentiality": "confidential",
    }
    return Execution(**(values | changes))  # type: ignore[arg-type]


# claim TG-C-04
def test_monty_asks_and_the_heavy_lane_is_off() -> None:
    assert isinstance(may_execute(POLICY, run()), Ask)
    assert isinstance(may_execute(POLICY, run(backend="era", profile="python")), Deny)
    # Virtual machines both; which of them works is the machine's.  Neither runs while era is off.
    assert isinstance(may_use_engine(POLICY, "qemu-kvm"), Allow)
    assert isinstance(may_use_engine(POLICY, "qemu-emulation"), Allow)
    assert isinstance(may_use_engine(POLICY, "runsc"), Deny)


def test_no_profile_has_a_network_and_none_is_offered_by_any_lane() -> None:
    for name in POLICY.words("tool-exec", "interpreter_ring"):
        assert POLICY.text("tool-exec", "interpreter_ring", name, "executor_network") == "off"
    assert POLICY.text("tool-exec", "lanes", "era", "network") == "off"
    assert POLICY.text("tool-exec", "rule_of_two") == "refuse"


def test_monty_reaches_no_module_that_touches_the_machine() -> None:
    reaching = {"os", "sys", "time", "random", "pathlib", "asyncio", "posixpath"}
    assert not reaching & set(POLICY.words("tool-exec", "lanes", "monty", "imports"))
    assert not reaching & set(tool_exec.MONTY_MODULES), "nor could any policy allow it"


def test_prose_names_every_function_with_its_signature() -> None:
    text = default_files()["tool-exec.policy.md"].decode()
    for name in POLICY.words("tool-exec", "functions"):
        assert re.search(rf"\| `{name}\([^`]+\) -> [a-z\[\]]+` \|", text), name


# claim TG-C-01
def test_core_makes_no_packets_results_or_approvals_in_any_role() -> None:
    for role in POLICY.words("core", "roles"):
        for kind in ("rp", "res", "ap"):
            assert isinstance(may_draft(POLICY, "core", kind, role=role), Deny)
        assert isinstance(may_draft(POLICY, "core", "an", role=role), Allow)
    assert {"research-assistant", "policy-analyst", "code-reviewer", "data-wrangler"} == set(
        POLICY.words("core", "roles")
    )


def test_model_is_local_and_pinned() -> None:
    assert POLICY.text("core", "model", "kind") == "embedded"
    assert re.fullmatch("[0-9a-f]{64}", POLICY.text("core", "model", "sha256"))
    assert POLICY.value("core", "model", "remote_host") is None


def test_approval_is_one_hour_by_default_and_the_clock_may_lag_five_minutes() -> None:
    assert POLICY.integer("handoff", "approval", "lifetime_seconds") == 3_600
    assert POLICY.integer("handoff", "clock_tolerance_seconds") == 300


def test_words_of_policy_and_of_artifacts_agree() -> None:
    assert tuple(KINDS) == PREFIXES
    assert set(POLICY.words("tool-exec", "lanes")) == set(BACKENDS)
    assert set(tool_exec.FUNCTIONS) == set(FUNCTIONS)
    assert ("none", tool_exec.NETWORKS[-1]) == (NO_NETWORK, GATEWAY)
    assert tool_exec.METHODS == METHODS
    assert CONFIDENTIALITY == ("public", "internal", "confidential")
    assert tuple(RunLimits.__dataclass_fields__) == tool_exec.REQUEST_LIMITS


def test_every_lane_has_a_default_for_every_limit_a_request_states() -> None:
    for lane in BACKENDS:
        place = ("tool-exec", "lanes", lane)
        named = {*POLICY.words(*place, "max"), *POLICY.words(*place, "default")}
        assert set(RunLimits.__dataclass_fields__) <= named


def test_every_state_of_the_handoff_has_a_quota() -> None:
    directories = {path for paths in ARTIFACT_STATES.values() for path in paths}
    assert directories
    for directory in directories:
        _, kind, state = directory.split("/")
        assert POLICY.integer("handoff", "quotas", kind, state, "files") > 0
    for kind in ("quarantine", "blobs"):
        assert POLICY.integer("handoff", "quotas", kind, "bytes") > 0


def test_files_speak_of_data_without_promising() -> None:
    words = re.compile(r"\b(?:sanitize|sanitise|clean|safe|secure|trusted)\b", re.IGNORECASE)
    for section in SECTIONS:
        text = policy_files()[section.file].decode()
        assert words.search(text) is None, section.file


def test_the_set_up_commands_pull_what_the_policy_names() -> None:
    pulled = dict(re.findall(r"(?m)^(ANSWERS|VECTORS|SMALLEST) := (\S+)$", MAKEFILE))
    core = policy().bundle()
    assert pulled["ANSWERS"] == core.text("core", "model", "name") == models.DEFAULT
    assert pulled["VECTORS"] == core.text("core", "embedder", "name")
    assert pulled["SMALLEST"] == models.NAME
