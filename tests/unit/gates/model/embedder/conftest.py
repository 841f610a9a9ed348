"""The model's own module loads numpy before a test does: with one thread, as in the box."""

import threegate.gates.model.embedder.minilm  # noqa: F401
