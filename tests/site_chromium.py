"""What tests of the site in Chromium share: where it is, how patient they are, and how a page is opened."""

import contextlib
import functools
import http.server
import os
import shutil
import threading
import time

import pytest
from site_pages import pages

try:
    from playwright.sync_api import Error
except ImportError:  # the tests that need it skip
    Error = RuntimeError

PATIENCE = 120_000  # milliseconds
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needed = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: apt-get install chromium")
LAUNCH = {"executable_path": CHROMIUM, "args": ["--no-sandbox"]}


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *_):
        pass


def written(root):
    """The site in a folder."""
    for name, text in pages().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    return root


def serve(folder, root):
    """A server of the folder under a prefix, and its address."""
    os.symlink(folder, root / "some-prefix", target_is_directory=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}/some-prefix/"


def open_(page, base, address):
    """Go to a page, whose script has run then."""
    page.goto(base + address)
    until(page, "document.documentElement.classList.contains('js')")


def until(page, expression, arg=None):
    """Wait until an expression holds; Playwright's own way polls by `eval`, which the pages' policy forbids."""
    end = time.monotonic() + PATIENCE / 1000
    while True:
        with contextlib.suppress(Error):  # a page that is left meanwhile
            if page.evaluate(expression, arg):
                return
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)
