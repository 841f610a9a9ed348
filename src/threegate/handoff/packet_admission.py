"""Admission of packets that a sandbox made here, with the record and raw bytes they were made from.

SECURITY
    Writes foreign bytes under names that are computed from them, and parses each packet again from
    the very bytes that are stored.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from threegate.artifacts import registry
from threegate.artifacts.ids import digest_of, make_id, sha256_hex
from threegate.artifacts.registry import Artifact
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted
from threegate.handoff import states
from threegate.handoff.admission import check_in_place, destination, refuse_gone
from threegate.handoff.journal import Act, Put
from threegate.handoff.refusals import refuse_forgotten
from threegate.handoff.store import Store


def admit_packet(
    store: Store,
    packet: Untrusted[bytes],
    *,
    blobs: Sequence[bytes],
    op: str,
    detail: Mapping[str, Any],
    again: bool = False,
) -> tuple[str, bool]:
    """Store a packet and the raw bytes it was made from, all or nothing.

    Returns its id and whether it is new.  `again` stores one that is here once more, so that
    the log names another operation for it.  Raises `ArtifactRejected`, and then nothing was stored.
    """
    (found,) = admit_packets(store, [(packet, blobs)], op=op, detail=lambda _: detail, again=again)
    if isinstance(found, ArtifactRejected):
        raise found
    return found


def admit_packets(
    store: Store,
    offered: Sequence[tuple[Untrusted[bytes], Sequence[bytes]]],
    *,
    op: str,
    detail: Callable[[Sequence[str]], Mapping[str, Any]],
    again: bool = False,
) -> list[tuple[str, bool] | ArtifactRejected]:
    """Store packets with their raw bytes as one change; return the answer for each.

    A refused packet does not keep the others out.  `detail` makes the log's words from the ids
    that are new.
    """
    parsed = [_offered_packet(packet) for packet, _ in offered]
    answers: list[tuple[str, bool] | ArtifactRejected] = []
    # The packets first: the log's detail for the whole change is attached to the first name.
    acts: dict[str, Act] = {}
    raws: dict[str, Act] = {}
    with store.locked() as journal:
        for (packet, blobs), artifact in zip(offered, parsed, strict=True):
            if isinstance(artifact, ArtifactRejected):
                answers.append(artifact)
                continue
            data = packet.open_for_validation()
            packet_id, brought = make_id("rp", data), {sha256_hex(blob): blob for blob in blobs}
            try:
                _refuse_removed(store, packet_id, brought)
                new = again or (store.locate(packet_id) is None and packet_id not in acts)
                if new:
                    check_in_place(store, artifact, {})
            except ArtifactRejected as exc:
                answers.append(exc)
                continue
            answers.append((packet_id, new))
            if new:
                acts[packet_id] = Put(destination(artifact, "rp"), f"{packet_id}.md", data)
                raws |= {
                    digest: Put(states.BLOBS, digest, blob)
                    for digest, blob in brought.items()
                    if not store.has_blob(digest)
                }
        if acts:
            journal.run(op, [*acts.values(), *raws.values()], detail(list(acts)))
    return answers


def _refuse_removed(store: Store, packet_id: str, brought: Iterable[str]) -> None:
    refuse_gone(store, packet_id)
    for digest in (digest_of(packet_id), *brought):
        refuse_forgotten(store, digest)


def _offered_packet(packet: Untrusted[bytes]) -> Artifact | ArtifactRejected:
    try:
        return registry.parse(packet)
    except ArtifactRejected as exc:
        return exc
