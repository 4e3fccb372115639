"""A page opened in headless Chromium, and what went wrong while it was open."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE_MS = 30_000
"""How long an expectation may take to come true: a loaded machine draws slowly."""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser; the caller has made sure that it and playwright are there."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Visit:
    """An open page; at the end there may be neither errors nor requests to other servers."""

    def __init__(self, browser: Any, address: str, own: tuple[str, ...] = ("file://",)) -> None:
        self.troubles: list[str] = []
        self.addresses: list[str] = []
        self.own = (*own, "blob:", "data:")
        self.page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        self.page.on("console", lambda message: self.troubles.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("requestfailed", lambda request: self.troubles.append(f"failed: {request.url}"))
        self.page.on("request", lambda request: self.addresses.append(request.url))
        self.page.goto(address)
        self.page.wait_for_selector("#main[aria-busy=false]")

    def close(self) -> None:
        """Close it and return the errors."""
        troubles = list(self.troubles)  # closing aborts the pending requests of a live page
        self.page.close()
        strangers = [url for url in self.addresses if not url.startswith(self.own)]
        assert not troubles, troubles
        assert not strangers, strangers


def choose(page: Any, control: str, value: str) -> None:
    """Choose an option of the list with this label."""
    page.get_by_role("combobox", name=control, exact=True).select_option(value)


def points(page: Any) -> Any:
    """The points of the frontier's plot."""
    return page.locator("#frontier-plot .points path")


def read_table(page: Any, table: str) -> list[dict[str, str]]:
    """The lines of a table by the names of its columns."""
    heads = page.locator(f"{table} th").all_inner_texts()
    lines = page.locator(f"{table} tbody tr").all()
    return [dict(zip(heads, line.locator("td").all_inner_texts(), strict=True)) for line in lines]
