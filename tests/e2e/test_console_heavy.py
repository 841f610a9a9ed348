"""A heavy request from the inbox to its files, in a real browser: a real guest runs it."""

from pathlib import Path

import pytest

from tests.e2e.test_heavy_run import CODE, asked, lane
from tests.support.console import read_all, scene_of

BOOT_WAITS = 20  # of 40 s each: a guest that boots by emulation on a busy machine


@pytest.mark.slow
def test_an_approved_heavy_request_runs_by_itself(tmp_path: Path) -> None:
    cli = lane(tmp_path)
    request_id = asked(cli, CODE)
    with scene_of(cli) as served:
        tab = served.tab("/inbox")
        assert "era" in str(tab.js("document.querySelector('.chips').innerText"))
        tab.press("j")
        tab.acts(lambda: tab.press("Enter"))
        read_all(tab)
        tab.js("document.getElementById('typed').value = ''")
        tab.click("#typed")
        tab.type("00000000")
        assert tab.js("document.getElementById('approve-button').disabled"), "other digits"
        tab.js("document.getElementById('typed').value = ''")
        tab.type(request_id.partition("-")[2][:8])
        tab.wait("!document.getElementById('approve-button').disabled")
        tab.acts(lambda: tab.click("#approve-button"))
        tab.wait("document.body.innerText.includes('approved ')")
        ran = served.console.wait_for("ran", waits=BOOT_WAITS)
        assert (ran["request"], ran["outcome"], ran["code"]) == (request_id, "ok", "")
        tab.wait("document.getElementById('sheet').dataset.state === 'done'")
        tab.acts(lambda: tab.click("a[href^='/artifact/res-']"))
        assert "rows.json" in tab.text()
        assert "2 rows" in tab.text()
        assert served.state(request_id) == "done"
        assert [one for one in served.console.events if one["event"] in ("bug", "not-run")] == []
