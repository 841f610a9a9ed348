"""Every page of the console: only what is listed here is served.

The order of the modules is the order of the navigation.
"""

from typing import Final

from threegate.console import (
    artifact_pages,
    ask_page,
    fetch_pages,
    file_pages,
    inbox_page,
    packet_pages,
    request_page,
    run_page,
    status_pages,
)

PAGES: Final = (
    *inbox_page.PAGES,
    *fetch_pages.PAGES,
    *ask_page.PAGES,
    *run_page.PAGES,
    *artifact_pages.PAGES,
    *packet_pages.PAGES,
    *file_pages.PAGES,
    *request_page.PAGES,
    *status_pages.PAGES,
)
