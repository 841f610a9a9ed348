"""Why this box computes no vectors: a code and our own words."""

from enum import Enum


class EmbedderRefusal(Enum):
    """The codes, and what each means."""

    OTHER_WEIGHTS = ("TG-EMB-001", "the weights are not those of the policy")
    OTHER_VOCABULARY = ("TG-EMB-002", "the vocabulary is not the pinned one")
    NO_HEADER = ("TG-EMB-003", "the file of weights has no header that can be read")
    BAD_TENSOR = ("TG-EMB-004", "the header of the weights names what is not in the file")
    OTHER_MODEL = ("TG-EMB-005", "the weights are not those of this kind of model")
    BAD_VOCABULARY = ("TG-EMB-006", "the vocabulary is not one")
    NOT_FINITE = ("TG-EMB-007", "the weights are not all numbers")


class EmbedderRefused(Exception):
    """There will be no vectors."""

    def __init__(self, why: EmbedderRefusal) -> None:
        super().__init__(why.value[1])
        self.code, self.sentence = why.value
