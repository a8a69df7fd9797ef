"""Which table counts: one rule for every command, local measurements over the published ones, and where it is from."""

import json
import sys
from dataclasses import replace
from itertools import product

import pytest
from choose_findings import FRAGMENT, sass, turned, without_table
from command import tcprobe
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.errors import DataError
from tcprobe.isa.names import select
from tcprobe.pages import overview
from tcprobe.store.cell import cell, for_emit
from tcprobe.store.choose import Layer, Layers, alone, default, over_published
from tcprobe.store.finding import METHODS, STATUSES, source_words
from tcprobe.store.results import Results, published

ARCHS = ("sm_80", "sm_86")


class Memory:
    """A folder that is none: measurements by (arch, method), some of which cannot be trusted."""

    def __init__(self, saved):
        self.saved = saved

    def methods(self, name):
        return [m for m in METHODS if (name, m) in self.saved]

    def archs(self):
        return sorted({name for name, _ in self.saved})

    def measurement(self, name, method, _experiment):
        found = self.saved.get((name, method))
        if found == "damaged":
            raise DataError(f"{name} {method}")
        return found


KEYS = list(product(ARCHS, METHODS))


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(STATUSES)), min_size=1, max_size=3), st.data())
def test_the_strongest_method_counts_then_the_nearest_folder_then_the_newest_arch(folders, data):
    layers = []
    for number, statuses in enumerate(folders):
        saved = {}
        for (name, method), status in statuses.items():
            one = replace(sass(), arch=name, method=method)
            saved[name, method] = one if status == "measured" else without_table(one, status)
        layers.append(Layer(Memory(saved), str(number), str(number)))
    archs = data.draw(st.sampled_from([["sm_80"], ["sm_86"], list(ARCHS)]))
    keys = [
        (METHODS.index(method), number, -archs.index(name))
        for number, statuses in enumerate(folders)
        for (name, method), status in statuses.items()
        if status == "measured" and name in archs
    ]
    found = Layers(layers).choose(FRAGMENT, archs)
    mine = found and (METHODS.index(found.measured.method), int(found.source), -archs.index(found.measured.arch))
    assert mine == min(keys, default=None)


@pytest.mark.full
def test_a_failed_live_measurement_hides_no_table_anywhere(tmp_path):
    """show, where, emit, compare, diff, pages and why-not all take the machine code's table beside it."""
    results = Results(tmp_path / "r")
    for name in ARCHS:
        results.write(turned(sass(name)))
        results.write(without_table(sass(name), "failed", method="live"))
    layout = turned(sass()).tables["d"].id
    alone_there = ["--results", tmp_path / "r", "--only", "--arch", "sm_80"]
    assert json.loads(tcprobe("show", FRAGMENT.id, "--json", *alone_there).stdout)["layout_id"] == layout
    assert json.loads(tcprobe("emit", FRAGMENT.id, "--to", "json", *alone_there).stdout)[0]["layout_id"] == layout
    assert "sass" in tcprobe("where", FRAGMENT.id, "--lane", "0", *alone_there).stdout
    lines = tcprobe("compare", "--json", *alone_there, code=1).stdout.splitlines()
    assert {json.loads(line)["method"] for line in lines} == {"sass"}
    assert "prevents" in tcprobe("why-not", FRAGMENT.id, *alone_there).stdout
    assert "measured: sass" in tcprobe("why-not", FRAGMENT.id, *alone_there).stdout
    of = overview.cells_of(results)[FRAGMENT.id]
    assert {(name, of[name].how, of[name].table.id) for name in ARCHS} == {(name, "sass", layout) for name in ARCHS}
    (found,) = tcprobe("diff", "sm_80", "sm_86", FRAGMENT.id, "--json", *alone_there[:3]).stdout.splitlines()
    assert json.loads(found)["same"] == [FRAGMENT.id]
    overview.write(results)
    assert overview.stale(results) == []


@pytest.mark.full
def test_pages_compare_and_show_choose_the_same(tmp_path):
    """Over everything published: one table for each cell, whoever asks."""
    layers, facts = alone(published()), overview.cells_of(published())
    for one in for_emit(select("wmma.*", "mma.m*"), "all", layers):
        assert facts[one.fragment.id][one.arch].table.id == one.table.id


# names of folders


def test_the_published_folder_is_published_by_any_path(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(published().root)
    assert over_published(tmp_path / "link").names == "published"
    monkeypatch.chdir(published().root.parent)
    assert default().names == alone(Results(published().root)).names == "published"
    monkeypatch.chdir(tmp_path)
    assert default().names == "published"
    (tmp_path / "results").write_text("a file")
    assert default().names == "published"


@pytest.mark.skipif(sys.platform == "win32", reason="no such names there")
@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31m", "a\\"])
def test_a_folder_with_an_unprintable_name_is_quoted(tmp_path, name):
    folder = tmp_path / name
    Results(folder).write(sass())
    source = cell(FRAGMENT, "sm_80", over_published(folder)).source
    assert json.loads(source) == str(folder)
    header = tcprobe("emit", FRAGMENT.id, "--to", "cuda", "--results", folder).stdout
    assert header.isascii()
    assert not any(line.endswith("\\") or "\x1b" in line or line.startswith("b") for line in header.splitlines())


def test_a_folder_called_published_is_not_taken_for_the_published_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Results(tmp_path / "published").write(sass())
    shown = json.loads(tcprobe("show", FRAGMENT.id, "--arch", "sm_80", "--json", "--results", "published").stdout)
    assert shown["source"] == "./published"
    assert source_words(shown["source"]) == "from ./published"
