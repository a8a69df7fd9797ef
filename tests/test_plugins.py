"""Modules that are found by being in a package: a broken one is an error that names it, never silence."""

import pytest

from tcprobe import emit, plugins, references
from tcprobe.emit import csv
from tcprobe.errors import RowError
from tcprobe.isa import inventory, rows


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A function that adds a module to a package, for one test."""

    def add(to, name, text):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setattr(to, "__path__", [*to.__path__, str(tmp_path)])

    for cached in (references.references, emit.names, emit.formats, inventory.instructions):
        cached.cache_clear()
    yield add
    for cached in (references.references, emit.names, emit.formats, inventory.instructions):
        cached.cache_clear()


GOOD = "NAME = 'x'; SOURCE = 'y'; ERRATA = ()\ndef claim(fragment, device): return 'nothing'\n"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("misspelt", GOOD.replace("NAME", "NMAE"), r"tcprobe\.references\.misspelt lacks NAME: .* needs NAME, SOURCE"),
        ("silent", GOOD.replace("claim", "claims"), r"tcprobe\.references\.silent lacks claim"),
        ("datum", GOOD.replace("def claim(fragment, device): return 'nothing'", "claim = 1"), r"datum lacks claim"),
        ("faulty", "import nowhere.at.all\n", r"tcprobe\.references\.faulty cannot be imported: ModuleNotFoundError"),
        ("unfinished", "def claim(:\n", r"tcprobe\.references\.unfinished cannot be imported: SyntaxError"),
    ],
)
def test_a_reference_that_is_none_is_named(package, name, text, words):
    package(references, name, text)
    with pytest.raises(RowError, match=words):
        references.references()


def test_a_reference_is_found_by_being_there(package):
    before = [r.NAME for r in references.references()]
    assert before[0] == "PTX ISA"
    references.references.cache_clear()
    package(references, "one_more", GOOD)
    assert sorted(r.NAME for r in references.references()) == sorted([*before, "x"])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("no_emit", "WHAT = 'x'\n", r"tcprobe\.emit\.no_emit lacks emit"),
        ("no_what", "def emit(tables): return ''\n", r"tcprobe\.emit\.no_what lacks WHAT"),
        ("odd_archs", "WHAT = 'x'; ARCHS = 'al'\ndef emit(tables): return ''\n", "ARCHS is 'al'"),
    ],
)
def test_a_format_that_is_none_is_named_where_it_is_asked_for(package, name, text, words):
    package(emit, name, text)
    assert name.replace("_", "-") in emit.names()
    with pytest.raises(RowError, match=words):
        emit.for_all_archs(name)
    assert not emit.for_all_archs("csv")  # the others still work, and are not imported together


def test_a_file_of_rows_needs_rows(package):
    package(rows, "empty", "")
    with pytest.raises(RowError, match=r"tcprobe\.isa\.rows\.empty lacks INSTRUCTIONS"):
        inventory.instructions()


def test_what_is_apart_is_no_plug_in():
    assert "common" not in plugins.module_names("tcprobe.emit", apart=("common",))
    assert plugins.load("tcprobe.emit", "csv", ("WHAT", "emit")) is csv
