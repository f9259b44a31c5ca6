"""Debian's Chromium, driven by playwright, for tests of pages. Without them the tests skip."""

import contextlib
import os
import shutil
import sys
import time

import pytest
from conftest import ROOT, note_of_set_up

FOLDER = ROOT / "build" / "playwright"


@contextlib.contextmanager
def browser():
    """A running Chromium of playwright's."""
    program = shutil.which("chromium")
    if not program:
        pytest.skip("no chromium on this machine (Debian: chromium)")
    if not FOLDER.exists():
        pytest.skip(f"no playwright ({note_of_set_up('no-playwright')})")
    sys.path.insert(0, str(FOLDER))
    try:
        from playwright.sync_api import sync_playwright
    finally:
        sys.path.remove(str(FOLDER))
    # Chromium refuses to be root's in its sandbox
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=program, args=options)
        yield running
        running.close()


class Opened:
    """A page of `gpumem view` in a browser, ready. `said`: what went wrong in it, and each request but that of the file."""

    def __init__(self, chromium, path, hash="", **keys):
        self.said, self.path = [], path
        self.context = chromium.new_context(offline=True, **{"viewport": {"width": 1280, "height": 800}, **keys})
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        address = path.as_uri()
        self.page.on("request", lambda request: request.url.split("#")[0] == address or self.said.append(f"request: {request.url}"))
        self.page.goto(address + hash)
        self.wait("() => document.documentElement.dataset.ready")

    def wait(self, condition, argument=None):
        """Until a function of the page's says so. playwright's own way is a script that the page's policy does not allow."""
        while not self.page.evaluate(condition, argument):
            time.sleep(0.02)

    def __getattr__(self, name):
        return getattr(self.page, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()
