"""What tests of the site in Chromium share: where it is, how patient they are, how a page is opened, what axe finds.

A plugin: its fixtures are there for every module, and nothing large is imported before one of them is used.
"""

import contextlib
import functools
import http.server
import importlib.util
import os
import shutil
import threading
import time

import pytest

PATIENCE = 120_000  # milliseconds
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
THERE = all(map(importlib.util.find_spec, ("pytest_playwright", "axe_playwright_python")))
LACKING = "apt-get install chromium" if THERE else "pip install 'tcprobe[browser]'"
needed = pytest.mark.skipif(not (CHROMIUM and THERE), reason=f"no browser to try the site in: {LACKING}")
both = pytest.mark.parametrize("base", ["file", "http"], indirect=True)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def browser_type_launch_args():
    """What Playwright's fixture `browser` begins with."""
    return {"executable_path": CHROMIUM, "args": ["--no-sandbox"]}


@pytest.fixture(scope="session")
def site_folder(tmp_path_factory):
    """The site in a folder."""
    from site_pages import pages

    root = tmp_path_factory.mktemp("site")
    for name, text in pages().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    return root


@pytest.fixture(scope="session")
def served(site_folder, tmp_path_factory):
    """The address of the site over HTTP, under a prefix."""
    root = tmp_path_factory.mktemp("http")
    os.symlink(site_folder, root / "some-prefix", target_is_directory=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/some-prefix/"
    server.shutdown()


@pytest.fixture
def base(request, site_folder):
    """Where the site is: in files, unless a test asks for `both`."""
    over_http = getattr(request, "param", "file") == "http"
    return request.getfixturevalue("served") if over_http else f"{site_folder.as_uri()}/"


@pytest.fixture
def watched(page, base):
    """A patient page that must ask for nothing foreign, and must not complain."""
    asked, said = [], []
    page.set_default_timeout(PATIENCE)
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    yield page
    own = (base, "blob:", "about:")
    assert [url for url in asked if not url.startswith(own)] == []
    assert said == []


@contextlib.contextmanager
def opened(browser, **how):
    """A patient page of a context of its own: a phone, dark, without the script."""
    context = browser.new_context(**how)
    context.set_default_timeout(PATIENCE)
    yield context.new_page()
    context.close()


def open_(page, base, address):
    """Go to a page, whose script has run then."""
    page.goto(base + address)
    until(page, "document.documentElement.classList.contains('js')")


def until(page, expression, arg=None):
    """Wait until an expression holds; Playwright's own way polls by `eval`, which the pages' policy forbids."""
    from playwright.sync_api import Error

    end = time.monotonic() + PATIENCE / 1000
    while True:
        with contextlib.suppress(Error):  # a page that is left meanwhile
            if page.evaluate(expression, arg):
                return
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


def violations(page):
    """What axe finds: rules with the first element of each."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"resultTypes": ["violations"]})
    return [(rule["id"], rule["nodes"][0]["html"][:120]) for rule in found.response["violations"]]
