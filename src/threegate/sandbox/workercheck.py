"""Payload for the doctor: start one Monty worker behind the launcher and let it compute."""

import json

import pydantic_monty

from threegate.sandbox.channel import read_message, write_message
from threegate.sandbox.payload import LAUNCHER

LIMITS: pydantic_monty.ResourceLimits = {
    "max_memory": 64 * 2**20,
    "max_feed_duration_secs": 1.0,
}


def main() -> None:
    """Answer with what the worker made of the request."""
    code = (read_message(0, 65536) or b"").decode("utf-8")
    with (
        pydantic_monty.Monty(
            binary_path=LAUNCHER, min_processes=1, max_processes=1, max_checkouts_per_worker=1
        ) as pool,
        pool.checkout(limits=LIMITS) as session,
    ):
        value = session.feed_run(code)
    write_message(3, json.dumps(value).encode("utf-8"))
