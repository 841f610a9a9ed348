"""Packets to measure with, and the plain file operations they are measured against."""

import itertools
import os
import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.support.samples import box, packet, packet_of_size
from threegate.artifacts import registry
from threegate.artifacts.research_packet import Identifier
from threegate.handoff.sync import sync_filesystem

VOCABULARY = 20_000
SENTENCES = 4_000
WORDS_PER_SENTENCE = 12
SENTENCES_PER_TEXT = 10
TEXTS = 4

COMMON = ("the", "of", "and", "in", "to", "is", "that", "for", "with", "was")

# In every packet, in about one of a hundred, in exactly one.
EVERYWHERE = "wasser"
SEASONS = 100


def plain_packets(count: int) -> Iterator[bytes]:
    """Yield the packets the tests use too, about 5 kB each."""
    return (registry.emit(packet_of_size(number)) for number in range(count))


def prose_packets(start: int, count: int) -> Iterator[bytes]:
    """Yield packets of about 5 kB whose words are as unevenly common as in a language."""
    return (_prose_packet(number) for number in range(start, start + count))


def season_of(number: int) -> str:
    """Return a phrase that one packet of a hundred holds."""
    return f"season {number % SEASONS} ends"


def serial_of(number: int) -> str:
    """Return a word that one packet holds."""
    return f"serial{number}"


def _prose_packet(number: int) -> bytes:
    chooser = random.Random(number)
    texts = [" ".join(chooser.choices(sentences(), k=SENTENCES_PER_TEXT)) for _ in range(TEXTS)]
    texts[0] += f" {EVERYWHERE} {season_of(number)} {serial_of(number)}."
    doi = f"10.5555/ice.{number}"  # each is a work of its own, as in a library
    named = {"reference": box(f"doi:{doi}"), "identifiers": (Identifier("doi", box(doi)),)}
    return registry.emit(packet(*texts, title=box(f"Sea ice {number}"), **named))


@cache
def sentences() -> tuple[str, ...]:
    """Return sentences whose words are as unevenly common as in a language."""
    chooser = random.Random(0)
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    words = ["".join(chooser.choices(letters, k=chooser.randint(2, 10))) for _ in range(VOCABULARY)]
    words[: len(COMMON)] = COMMON  # by which a language is told
    common = list(itertools.accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
    return tuple(
        " ".join(chooser.choices(words, cum_weights=common, k=WORDS_PER_SENTENCE)) + "."
        for _ in range(SENTENCES)
    )


class RawFiles:
    """A directory into which bytes are put with nothing but system calls."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700)
        self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._names = map(str, itertools.count())

    def put(self, data: bytes) -> None:
        """Put one file durably: write, fsync, rename, fsync the directory."""
        name = next(self._names)
        self._write(name, data, sync=True)
        self._rename(name)
        os.fsync(self._directory)

    def put_together(self, batch: Sequence[bytes]) -> None:
        """Put many files durably with one flush before the renames and one after."""
        names = [next(self._names) for _ in batch]
        for name, data in zip(names, batch, strict=True):
            self._write(name, data, sync=False)
        sync_filesystem(self._directory)
        for name in names:
            self._rename(name)
        os.fsync(self._directory)

    def _write(self, name: str, data: bytes, *, sync: bool) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(name + ".new", flags, 0o600, dir_fd=self._directory)
        os.write(fd, data)
        if sync:
            os.fsync(fd)
        os.close(fd)

    def _rename(self, name: str) -> None:
        fd = self._directory
        os.rename(name + ".new", name, src_dir_fd=fd, dst_dir_fd=fd)
