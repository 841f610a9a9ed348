"""`core.policy.md`: what CORE may read and draft, and which model it speaks to."""

from typing import Final

from threegate.base.forms import CONFIDENTIALITY, NOT_A_KEY
from threegate.policy.hosts import check_host
from threegate.policy.leaves import (
    BYTES,
    DIGEST,
    NAME,
    OPTIONAL_DIGEST,
    SECONDS,
    Number,
    Word,
    WordChoice,
    prose,
)
from threegate.policy.nodes import PolicyReason, RuleReader
from threegate.policy.schema import RuleField, RuleGroup, RuleRecord, RuleTable, Sentences
from threegate.policy.sections.section import Rules, RuleSection, block_of, words_of

NAME_OF_SECTION: Final = "core"
READABLE: Final = WordChoice(("analysis", "research-packet", "tool-result"))
DRAFTABLE: Final = WordChoice(("analysis", "fetch-request", "tool-request"))
MODEL_NAME: Final = Word(r"[A-Za-z0-9][A-Za-z0-9._:/-]*", "the model's name", most=128)

# What must be given, and what must be `none`, for each kind of model.
_NEEDS: Final = {
    "none": frozenset[str](),
    "embedded": frozenset({"sha256"}),
    "bridge": frozenset({"endpoint"}),
    "remote": frozenset({"remote_host"}),
}

MAX_PORT: Final = 65_535


def _check_endpoint(text: str) -> None:
    port = text.removeprefix("127.0.0.1:")
    if port.isdigit() and int(port) > MAX_PORT:
        raise ValueError(f"there is no port above {MAX_PORT}")


def _check_header(text: str) -> None:
    name = text.removeprefix("header:")
    if name.lower() in NOT_A_KEY:
        raise ValueError(f"{name} is a header that every request has for itself")


MODEL: Final = RuleRecord(
    (
        RuleField("kind", WordChoice(("none", "embedded", "bridge", "remote")), "model"),
        RuleField("name", MODEL_NAME, "name of the model, as its server reports it"),
        RuleField("sha256", OPTIONAL_DIGEST, "digest of the embedded model file"),
        RuleField(
            "endpoint",
            Word(
                r"127\.0\.0\.1:[1-9][0-9]{1,4}|unix:/[A-Za-z0-9._/-]+",
                "`127.0.0.1:PORT` or `unix:/PATH`",
                check=_check_endpoint,
                optional="narrowest",
            ),
            "where the operator's own model server listens",
        ),
        RuleField(
            "remote_host",
            Word(r"[a-z0-9.-]+", "a host name", most=253, check=check_host, optional="narrowest"),
            "remote machine that reads questions and sources",
        ),
        RuleField(
            "remote_credential",
            Word(
                r"bearer|header:[A-Za-z][A-Za-z0-9_-]{0,63}",
                "`bearer` or `header:NAME`",
                check=_check_header,
                optional="narrowest",
            ),
            "where the operator's key for the remote machine goes",
        ),
        RuleField(
            "remote_confidentiality",
            WordChoice(CONFIDENTIALITY),
            "most confidential artifact that may leave for the remote machine",
        ),
        RuleField(
            "remote_requests",
            Number(1, 1_000),
            "requests to the remote machine for one question",
        ),
        RuleField(
            "remote_bytes",
            Number(1_024, 2**30, BYTES),
            "bytes sent to the remote machine for one question",
        ),
        RuleField("context_tokens", Number(512, 1_048_576), "tokens the model may see at once"),
    )
)

ROLE: Final = RuleRecord(
    (
        RuleField("brief", Sentences(prose(500)), "instructions for the role"),
        RuleField("may_draft", RuleGroup(DRAFTABLE), "artifacts this role may draft"),
    )
)

RECORD: Final = RuleRecord(
    (
        RuleField("may_read", RuleGroup(READABLE), "artifacts CORE may read"),
        RuleField("may_draft", RuleGroup(DRAFTABLE), "artifacts CORE may draft"),
        RuleField("model", MODEL, "the model"),
        RuleField(
            "embedder",
            RuleRecord(
                (
                    RuleField("name", MODEL_NAME, "name of the embedding model"),
                    RuleField("sha256", DIGEST, "digest of the embedding model file"),
                )
            ),
            "the embedding model",
        ),
        RuleField(
            "selection",
            RuleRecord(
                (
                    RuleField("packets", Number(1, 10_000), "artifacts shown to the model"),
                    RuleField("excerpts", Number(1, 10_000), "excerpts shown to the model"),
                    RuleField("bytes", Number(1024, 2**30, BYTES), "bytes handed to CORE"),
                )
            ),
            "what the host selects for one question",
        ),
        RuleField(
            "answer",
            RuleRecord(
                (
                    RuleField("claims", Number(1, 500), "claims in one analysis"),
                    RuleField("drafts", Number(0, 64), "drafts from one question"),
                    RuleField("output_tokens", Number(16, 65_536), "tokens the model may write"),
                    RuleField("retries", Number(0, 10), "further tries after a malformed reply"),
                    RuleField(
                        "deadline_seconds", Number(1, 86_400, SECONDS), "time for one question"
                    ),
                )
            ),
            "what one question may cost",
        ),
        RuleField("roles", RuleTable(NAME, ROLE, most=32, least=1), "roles"),
    )
)


def _check(rules: Rules, reader: RuleReader) -> None:
    model = block_of(rules, "model")
    kind = model["kind"]
    assert isinstance(kind, str)
    for key in ("sha256", "endpoint", "remote_host"):
        needed = key in _NEEDS[kind]
        if needed == (model[key] is None):
            verb = "needs" if needed else "has no"
            message = f"model kind {kind} {verb} {key}"
            raise reader.fail_at(PolicyReason.CONFLICT, (NAME_OF_SECTION, "model", key), message)
    allowed = words_of(rules, "may_draft")
    for name in block_of(rules, "roles"):
        for kind_of_draft in sorted(words_of(block_of(rules, "roles", name), "may_draft")):
            if kind_of_draft not in allowed:
                path = (NAME_OF_SECTION, "roles", name, "may_draft", kind_of_draft)
                message = f"role {name} may draft {kind_of_draft}, CORE may not"
                raise reader.fail_at(PolicyReason.CONFLICT, path, message)


SECTION: Final = RuleSection(NAME_OF_SECTION, "core.policy.md", RECORD, _check)
