"""Models run no code, and no rule of the ring is about them: each box has to prove that first."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import models
from tests.support.models import bridged, completed, own_server, question, said
from tests.support.policies import policy, signed_with
from threegate.base.untrusted import Untrusted
from threegate.host.models import choice, embedder
from threegate.host.models.embedder import Embedder
from threegate.host.models.server import ModelServer
from threegate.policy.ring.compiler import NOT_PROVED, NoOp, ProfileRejected
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import BRIDGE, EMBEDDER

PROVED = ("exec", "fork")
TEXT = [Untrusted("The weather is lovely today.")]


# claim TG-C-246
def test_an_embedder_that_has_not_proved_that_it_starts_nothing_is_asked_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights_file, words = map(str, models.minilm())
    given = {"model-file": weights_file, "vocabulary": words}
    noted: list[NoOp] = []
    honest = Embedder(policy().bundle(), find_machine(), given, noted.append)
    assert len(honest.vectors(TEXT)) == 1, "control"
    honest.close()
    assert noted == [NoOp("embedder", PROVED)]
    # A real box that may fork, and therefore does not try to.
    wider = replace(EMBEDDER, processes_may_fork=True)
    monkeypatch.setattr(embedder, "EMBEDDER", wider)
    able = Embedder(signed_with(wider).bundle(), find_machine(), given, noted.append)
    with pytest.raises(
        ProfileRejected, match=r"embedder has not proved .* nothing: fork"
    ) as caught:
        able.vectors(TEXT)
    assert caught.value.code == NOT_PROVED
    assert able._session is None
    assert len(noted) == 1


# claim TG-C-246
def test_a_bridge_that_has_not_proved_it_is_told_of_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[NoOp] = []
    with own_server() as own:
        bundle = bridged(own.port)
        start = (bundle, find_machine(), models.model_cache())
        with ModelServer.start(*start, runtime=tmp_path, noted=noted.append) as server:
            assert noted == [NoOp("bridge", PROVED)], "it stands in the log before it is asked"
            reply = completed(server.socket, question("The capital of France?"))
            assert said(reply) == "Paris", "control"
        asked = len(own.asked)
        assert asked > 0
        wider = replace(BRIDGE, processes_may_fork=True)
        monkeypatch.setattr(choice, "BRIDGE", wider)
        start = (signed_with(wider, bundle).bundle(), *start[1:])
        with (
            pytest.raises(ProfileRejected, match=r"bridge has not proved .*: fork") as caught,
            ModelServer.start(*start, runtime=tmp_path, noted=noted.append),
        ):
            raise AssertionError("it serves")
        assert caught.value.code == NOT_PROVED
        assert (len(noted), len(own.asked)) == (1, asked), "nobody asked the user's own server"
