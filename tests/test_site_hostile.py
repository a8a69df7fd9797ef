"""Texts of saved files on the site: what can be printed stands there as text, else nothing is written."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from hostile_texts import CONTROL, FIELDS, HOSTILE, make, put

from tcprobe.cli import main

pytestmark = pytest.mark.full  # samples: a site of published tables, and pages and commands in test_hostile_text.py

EVIL = "</script><script>evil()</script>"
TEXTS = [
    "".join(HOSTILE[:16]),
    " ".join(HOSTILE[16:-8]),
    f"{EVIL}\"'> <img src=x onerror=evil()> --> ]]> {{{{evil}}}} {{% evil %}}",
    '" onclick="evil()',
    "' onmouseover='evil()",
    "javascript:evil()",
    "&quot;&lt;script&gt;",
    "../../../evil",
    "a/b\\c:d",
]


def site(root, out):
    return CliRunner().invoke(main, ["site", "-o", str(out), "--results", str(root)])


class Shape(HTMLParser):
    """A page without its words: elements with the names of their attributes; links, and what scripts get, apart."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.data, self._in = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, *(name for name, _ in attrs)))
        self._in = tag

    def handle_endtag(self, tag):
        self.elements.append(f"/{tag}")
        self._in = None

    def handle_data(self, data):
        if self._in == "script":
            self.data.append(data)


def keys(value):
    """JSON without its texts."""
    if isinstance(value, dict):
        return {key: keys(inner) for key, inner in value.items()}
    return [keys(inner) for inner in value] if isinstance(value, list) else type(value).__name__


def shape(name, text):
    """What a file is made of, words apart."""
    if name.endswith(".json"):
        return keys(json.loads(text))
    if name == "words.js":
        return keys(json.loads(text.removeprefix("globalThis.tcprobeWords=").removesuffix(";\n")))
    if name.endswith(".html"):
        page = Shape(text)
        return page.elements, [keys(json.loads(data)) for data in page.data]
    return text


def read(folder):
    """Files by name; those named after a device or compiler under one name."""
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ".tcprobe-site"):
        name = path.relative_to(folder).as_posix()
        found[re.sub(r"^([gc])/.*", r"\1/page.html", name)] = path.read_text("utf-8")
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A site of files that say nothing odd."""
    folder = tmp_path_factory.mktemp("plain")
    root = make(folder / "results")
    for field in FIELDS:
        put(root, field, "evil")
    assert site(root, folder / "site").exit_code == 0
    return read(folder / "site")


@pytest.mark.parametrize("text", TEXTS)
def test_hostile_text_is_text_and_nothing_else(tmp_path, plain, text):
    """In all fields at once: every file has the elements, attributes and keys that it has without."""
    root = make(tmp_path / "results")
    for field in FIELDS:
        put(root, field, text)
    done = site(root, tmp_path / "site")
    assert done.exit_code == 0, done.output
    found = read(tmp_path / "site")
    assert set(found) == set(plain)
    for name, page in found.items():
        assert page == plain[name] or shape(name, page) == shape(name, plain[name]), name
        assert EVIL not in page
        assert page.replace("\n", "").isprintable()


@pytest.mark.parametrize("text", CONTROL)
def test_what_cannot_be_printed_is_refused_and_nothing_written(tmp_path, text):
    root = make(tmp_path / "results")
    put(root, "provenance.device", text)
    done = site(root, tmp_path / "site")
    assert done.exit_code == 4
    assert str(root) in done.stderr
    assert not (tmp_path / "site").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["results"]


def test_a_damaged_folder_leaves_the_site_that_was_there(tmp_path):
    root = make(tmp_path / "results")
    assert site(root, tmp_path / "site").exit_code == 0
    before = read(tmp_path / "site")
    (layout,) = list(Path(root, "layouts").glob("*.json"))[:1]
    layout.write_bytes(layout.read_bytes()[:-20])
    assert site(root, tmp_path / "site").exit_code == 4
    assert read(tmp_path / "site") == before


def test_names_of_folders_do_nothing(tmp_path):
    root = make(tmp_path / "<img src=x onerror=evil()>")
    done = site(root, tmp_path / "site")
    assert done.exit_code == 0
    assert all("<img src=x" not in page for page in read(tmp_path / "site").values())
