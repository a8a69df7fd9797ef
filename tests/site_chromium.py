"""What tests of the site in Chromium share: where it is, how patient they are, and how a page is opened."""

import functools
import http.server
import os
import shutil
import threading

import pytest
from site_pages import pages

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
    page.wait_for_function("document.documentElement.classList.contains('js')")
