"""News in order: each once, whenever a page loses its connection and comes again."""

import asyncio

from threegate.console.events import Events


def test_what_is_told_while_a_page_comes_again_is_told_once() -> None:
    async def comes_again() -> tuple[list[bytes], list[bytes]]:
        events = Events(asyncio.get_running_loop(), lambda: "now", lambda _: None)
        events.tell("changed", number=0)
        await asyncio.sleep(0)
        last = events.position
        events.tell("changed", number=1)
        await asyncio.sleep(0)
        stream = events.stream(last)
        first = [await anext(stream)]
        events.tell("changed", number=2)  # after the page was let in, before it read on
        await asyncio.sleep(0)
        events.tell("changed", number=3)
        await asyncio.sleep(0)
        events.close()
        return first, [one async for one in stream]

    first, rest = asyncio.run(comes_again())
    assert first == [b"retry: 1000\n\n"]
    assert [one.partition(b'"number":')[2][:1] for one in rest] == [b"1", b"2", b"3"]
