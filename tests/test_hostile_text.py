"""Text that came from outside does nothing but stand there: in a terminal, in emitted code, on a page.

Every text field of every kind of file is given hostile content, under a right checksum, and read by every command that
prints or emits. What cannot be printed on a line is refused,
with exit code 4 and a message of plain text. Everything else
leaves code, data and pages the very same as without it, comments and the places of the text apart.
"""

import ast
import json
import os
import re
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import pytest
from hostile_texts import CONTROL, FIELDS, HOSTILE, MEASURED, MMA, REFUSED, invoke, make, put, readable, stripped
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from tcprobe import emit
from tcprobe.isa import inventory
from tcprobe.store.results import published
from tcprobe.text import plain

posix = pytest.mark.skipif(os.name != "posix", reason="needs names of files that other systems do not allow")

OF_ONE = ("csv", "svg-warps")  # formats of one table


def commands(root):
    """What prints of a measured fragment."""
    yield from (
        ["show", MMA],
        ["show", MMA, "--arch", "all"],
        ["show", f"{MMA}.a", "--json"],
        ["where", f"{MMA}.a", "--lane", "1"],
        ["where", f"{MMA}.a", "--row", "1", "--json"],
        ["trace", MMA, "--row", "0", "--col", "0"],
        ["trace", MMA, "--row", "0", "--col", "0", "--json"],
        ["convert", f"{MMA}.d", f"{MMA}.a"],
        ["convert", f"{MMA}.d", f"{MMA}.a", "--json"],
        ["compare"],
        ["compare", "--json"],
        ["diff", "sm_80", "sm_90"],
        ["why-not", f"{MMA}.a", "--arch", "sm_90"],
        ["why-not", f"{REFUSED}.a", "--arch", "sm_90"],
    )
    yield from (["emit", f"{MMA}.a" if name in OF_ONE else MMA, "--to", name] for name in emit.names())


@cache
def clean(root):
    """What the commands print without anything hostile."""
    return {tuple(c): invoke(*c, "--results", root, "--only").stdout for c in commands(root)}


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    return make(tmp_path_factory.mktemp("clean")), make(tmp_path_factory.mktemp("hostile"))


PYTHON = ("cute-dsl", "mosaic", "numba", "numpy", "python", "sympy", "tensor-layouts", "tilelang", "tinygrad", "triton")


def same_code(name, found, expected):
    """That two emitted texts do the same."""
    if name in PYTHON:
        return ast.dump(ast.parse(found)) == ast.dump(ast.parse(expected))
    if name in ("cuda", "cute", "ptx"):
        return stripped(found) == stripped(expected)
    if name == "latex":
        return re.sub("%.*", "", found) == re.sub("%.*", "", expected)
    if name.startswith("svg"):
        one, two = ([e.tag for e in ET.fromstring(text).iter()] for text in (found, expected))
        return one == two
    if name == "json":
        return [sorted(shown) for shown in json.loads(found)] == [sorted(shown) for shown in json.loads(expected)]
    return same_lines(found, expected)


def same_lines(found, expected):
    """That a Markdown text differs in words only: as many lines, cells, links, and no HTML or code of its own."""
    one, two = found.split("\n"), expected.split("\n")
    return len(one) == len(two) and all(marks(a) == marks(b) for a, b in zip(one, two, strict=True))


def marks(line):
    """What Markdown makes something of, in the order in which it stands; a bar in a table only."""
    found = re.findall(r"\\[\\`*\[\]|]|[`<|\[\]*]|&(?!amp;|lt;)", line)
    return [m for m in found if len(m) == 1 and (m != "|" or line.startswith("|"))]


def check(roots, field, text, only=None):
    """How many commands (or `only` those) refuse files with `text` in `field`; others print what they do without."""
    without, hostile = roots
    put(hostile, field, text)
    refusals = 0
    for command, expected in clean(without).items():
        if only and command[0] != only:
            continue
        done = invoke(*command, "--results", hostile, "--only")
        assert readable(done.stdout), command
        assert readable(done.stderr), command
        assert isinstance(done.exception, SystemExit | None), (command, done.exception)
        if done.exit_code == 4:
            assert str(hostile) in done.stderr
            refusals += 1
        elif command[0] == "emit":
            assert done.exit_code == 0, (command, done.stderr)
            assert same_code(command[-1], done.stdout, expected), (command, text)
    return refusals


JOINED = ["".join(HOSTILE[:14]), "".join(HOSTILE[14:-8]), " ".join(HOSTILE[-5:])]


@pytest.mark.full
@pytest.mark.parametrize("field", MEASURED)
def test_what_can_be_printed_changes_no_code_and_no_data(roots, field):
    for text in JOINED:
        assert check(roots, field, text) == 0
    put(roots[1], field, "c")


@pytest.mark.full
@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_reaches_past_the_end_of_its_comment(roots, text):
    """The source of the numbers ends a comment's line."""
    assert check(roots, "numbering", text, only="emit") == 0
    put(roots[1], "numbering", "c")


@pytest.mark.sampled(46)
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("text", CONTROL)
def test_what_cannot_be_printed_is_refused(roots, field, text):
    hostile = roots[1]
    put(hostile, field, text)
    found = [invoke("pages", "--check", "--results", hostile)]
    if field in MEASURED:
        found += [
            invoke("show", f"{MMA}.a", "--results", hostile, "--only"),
            invoke("emit", MMA, "--to", "python", "--results", hostile, "--only"),
        ]
    for done in found:
        assert done.exit_code == 4, (done.stdout, done.stderr)
        assert done.stdout == ""
        assert readable(done.stderr)
        assert str(hostile) in done.stderr
        assert "cannot be printed, or more than 500" in done.stderr
    put(hostile, field, "c")


@pytest.mark.full
@examples(25)
@given(
    field=st.sampled_from(MEASURED),
    text=st.lists(st.one_of(st.sampled_from([*HOSTILE, *CONTROL]), st.text(max_size=8)), max_size=4).map("".join),
)
def test_any_text_in_any_field_is_refused_or_does_nothing(roots, field, text):
    text = text.encode("utf-8", "replace").decode()
    assert bool(check(roots, field, text)) == (not plain(text))
    put(roots[1], field, "c")


def pages_of(root):
    done = invoke("pages", "--results", root)
    assert done.exit_code == 0, done.stderr
    assert readable(done.stdout)
    return {p.relative_to(root): p.read_text("utf-8") for p in root.rglob("*.md")}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", JOINED)
def test_pages_show_hostile_text_as_it_is(tmp_path, text):
    """In all fields at once: every page has the same lines, cells and links as without."""
    without, hostile = make(tmp_path / "clean"), make(tmp_path / "hostile")
    for field in FIELDS:
        put(without, field, "evil")
        put(hostile, field, text)
    expected, found = pages_of(without), pages_of(hostile)
    assert set(found) == set(expected)
    assert {path.name for path, page in found.items() if "evil" in page} == {"README.md", "lowering.md"}
    for path, page in found.items():
        assert readable(page), path
        assert same_lines(page, expected[path]), (path, text)


# names of files and folders


@pytest.mark.full
@posix
def test_names_of_files_and_folders_do_nothing_to_the_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evil = "e\x1b]0;vil\x07\n\u202e.csv"
    root = make(tmp_path / "r\x1b[31m\n")
    Path(evil).write_text(emit.emit("csv", [known_a()]))
    Path(f"bad{evil}").write_text("\x1b[31mlane,i,row,col\n\x07,0,0,0\n")
    Path("\x1b.csv").mkdir()
    (root / "layouts" / "\x1b[31m.json").write_text("{}")
    (root / "sm_90" / "live" / "\x1b[31m.json").write_text("{}")
    runs = [
        ["compare", evil, f"{MMA}.a"],
        ["compare", f"bad{evil}", f"{MMA}.a"],
        ["compare", "\x1b.csv", f"{MMA}.a"],
        ["compare", "none\x1b.csv", f"{MMA}.a"],
        ["fit", evil],
        ["fit", f"bad{evil}"],
        ["fit", "none\x1b"],
        ["fit", root],
        ["fit", "\x1b.json"],
        ["show", f"{MMA}.a", "--results", root],
        ["show", REFUSED, "--results", root],
        ["show", MMA, "--results", "none\x1b[31m"],
        ["show", "\x1b[31m"],
        ["show", MMA, "--arch", "\x1b[31m"],
        ["pages", "--results", root],
        ["pages", "--results", "none\x1b"],
        ["diff", root, root],
        ["diff", "\x1b", "\x07"],
        ["emit", MMA, "--to", "python", "-o", f"{evil}.py"],
        ["emit", MMA, "--to", "python", "-o", "no\x1b/x"],
        ["emit", MMA, "--to", "\x1b[31m"],
        ["show", "--\x1b[31m"],
        ["\x1b[31m"],
        ["lower", "--cuda", "none\x1b"],
        ["compare", "--results", root],
        ["why-not", "\x1b", "--arch", "sm_90"],
        ["where", f"{MMA}.a", "--row", "\x1b"],
    ]
    for command in runs:
        done = invoke(*command)
        assert isinstance(done.exception, SystemExit | None), (command, done.exception)
        assert readable(done.stdout), command
        assert readable(done.stderr), command
    assert Path(f"{evil}.py").exists()


def known_a():
    from tcprobe.store.cell import cell

    return cell(inventory.fragment(f"{MMA}.a"), "sm_90", published())
