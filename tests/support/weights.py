"""Real models for tests that need one: pulled once by the program's own code, kept by digest.

The smallest language model is far too small to be right about anything.  What it is for: a
real file, a real library, real tokens.  A machine without it and without a way to it fails the
tests; none is skipped.
"""

import os
from functools import cache as once
from pathlib import Path

from threegate.host.models.catalogue import MINILM, Model, by_name
from threegate.host.models.pull import ModelSources, pull
from threegate.host.models.store import Cache
from threegate.host.settings import Settings

DEFAULT = "qwen2.5-coder-1.5b-instruct-q4_k_m"
NAME = "smollm2-135m-instruct-q4_1"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def cache() -> Path:
    """Return where models are kept, as the program itself does."""
    return Settings.from_environment(os.environ).cache_home / "models"


def smallest() -> Path:
    """Return the file of the smallest language model, pulled if it is not there yet."""
    found = by_name(NAME)
    assert found is not None
    return _brought(found)[0]


def default() -> Path:
    """Return the file of the model that the default policy names; a gigabyte, for slow tests."""
    found = by_name(DEFAULT)
    assert found is not None
    return _brought(found)[0]


def minilm() -> tuple[Path, Path]:
    """Return weights and vocabulary of the embedding model, pulled if they are not there yet."""
    weights, vocabulary = _brought(MINILM)
    return weights, vocabulary


@once
def _brought(model: Model) -> tuple[Path, ...]:
    kept = Cache(cache())
    pull(model, kept, ModelSources.usual(os.environ), say=print)
    return tuple(kept.path(file) for file in model.files)
