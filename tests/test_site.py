"""The site: what other programs rely on, addresses that last, links that lead somewhere, sizes."""

import json
import os
import re
import statistics
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from site_pages import Page, archs_of, data_of, distinct, facts, pages

from tcprobe.ask.describe import cell_entry
from tcprobe.cli import main
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS, WARPGROUP
from tcprobe.layout.grid import blocks
from tcprobe.layout.structure import predict_hash
from tcprobe.pages.site import addresses
from tcprobe.pages.site.build import pictures, redirect
from tcprobe.pages.site.facts import gather
from tcprobe.pages.site.markup import render
from tcprobe.store.choose import Layers, alone
from tcprobe.store.results import Results, published

ADDRESSES = Path(__file__).parent / "golden" / "addresses.txt"
KB = 1024


def html():
    return {name: text for name, text in pages().items() if name.endswith(".html")}


def holders(text, span):
    """The (lane, i) of each of `span` elements that a cell names."""
    found = [[] for _ in range(span)]
    for holder in text.split():
        lane, parts = holder.split(":")
        for part in parts.split(","):
            first, _, last = part.partition("..")
            assert int(last or first) - int(first) == span - 1
            for number in range(span):
                found[number].append((int(lane), int(first) + number))
    return found


def test_a_matrix_names_every_holder_of_every_element(sample):
    """A cell's text is lane:i per holder, lists 0:0,8, ranges 0:4..7 over colspan columns; row numbers are heads."""
    for fact in sample(distinct(), 9):
        drawn, cell = Page(pages()[addresses.fact(fact.id)]).of_class("matrix"), fact.each[0]
        table, parts = cell.table, blocks(cell.table, cell.fragment)
        assert len(drawn) == len(parts)
        for part, rows in zip(parts, drawn, strict=True):
            named = {}
            for row, (head, *cells) in enumerate(rows[1:]):
                assert head == ["th", 1, str(row)]
                col = 0
                for tag, span, text in cells:
                    assert tag == "td"
                    for number, slots in enumerate(holders(text, span)):
                        named |= dict.fromkeys(slots, (row, col + number))
                    col += span
            complete = len(rows) - 1 == cell.fragment.rows
            expected = {slot: element for slot, element in part.slots.items() if complete or element[0] < len(rows) - 1}
            assert named == expected, fact.id
        assert sum(len(part.slots) for part in parts) == sum(cell is not None for cell in table.cells)


def test_fragments_of_one_layout_have_one_matrix():
    drawn = {}
    for fact in facts().facts.values():
        tables = tuple(re.findall(r'<table class="matrix">.*?(<thead>.*?)</table>', pages()[addresses.fact(fact.id)]))
        assert drawn.setdefault((fact.each[0].table.id, fact.fragment.slot_bits), tables) == tables


def test_a_register_table_says_what_each_lane_holds():
    fact = facts().facts["mma.m16n8k16.row.col.f32.f16.f16.f32.a"]
    (rows,) = Page(pages()[addresses.fact(fact.id)]).of_class("lanes")
    assert [text for _, _, text in rows[13]] == ["12", "3,0..1", "11,0..1", "3,8..9", "11,8..9"]
    assert len(rows) == 33


POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'"


class Nested(HTMLParser):
    """Fails where an element is not closed, or where another is still open in it; knows of no end tag that may lack."""

    VOID = ("meta", "link", "br", "img", "input")

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open += [tag] if tag not in self.VOID else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_parser_that_closes_no_element_by_itself_reads_every_page():
    """html.parser nests what has no end tag, so that the text of a cell would have that of all further ones."""
    names = [name for name in sorted(html()) if name[1:2] != "/"] + sorted(html())[::61]
    for name in {*names, *(addresses.fact(fact.id) for fact in distinct()[::4])}:
        Nested(pages()[name])


def test_no_page_shows_a_character_as_its_escape():
    """Texts of the package's own are printable: what is not comes from files, and of the published ones from none."""
    escape = re.compile(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}")
    shown = {name: re.sub(r"<(script|pre)\b.*?</\1>", "", text, flags=re.DOTALL) for name, text in html().items()}
    assert {name: found[0] for name, text in shown.items() if (found := escape.search(text))} == {}


def test_every_page_has_a_policy_and_nothing_foreign_or_inline():
    for name, text in html().items():
        assert re.findall(r'<meta http-equiv="Content-Security-Policy" content="(.*?)">', text) == [POLICY]
        assert not re.search(r"""(?:href|src)=["'](?:[a-z]+:|//)""", text), name
        assert not re.search(r"<style|<[^>]*\s(?:style|on[a-z]+)=|<iframe|<object|<embed", text), name
        scripts = re.findall(r"<script(.*?)>", text)
        assert all(' src="' in of or of == ' type="application/json" id="data"' for of in scripts), name


def test_every_link_leads_to_a_file_of_the_site():
    for name, text in html().items():
        folder = Path(name).parent
        for link in set(re.findall(r"""(?:href|src)="([^"?#]+)""", text)):
            assert os.path.normpath(folder / link).replace(os.sep, "/") in pages(), (name, link)


def test_every_page_is_at_most_two_clicks_from_the_index():
    """A stranger needs no search for any fact, instruction, layout, arch, measurer or swizzle."""
    reached, edge = {"index.html"}, {"index.html"}
    for _ in range(2):
        links = {(name, link) for name in edge for link in re.findall(r'href="([^"?#]+)', pages()[name])}
        edge = {os.path.normpath(Path(name).parent / link).replace(os.sep, "/") for name, link in links}
        edge = {name for name in edge - reached if name.endswith(".html")}
        reached |= edge
    stubs = {name for name, text in html().items() if 'http-equiv="refresh"' in text}
    assert set(html()) - stubs - reached == set()


def test_the_readout_is_live():
    for fact in list(facts().facts.values())[::40]:
        page = Page(pages()[addresses.fact(fact.id)])
        assert [a for _, a in page.elements if a.get("id") == "readout" and a.get("aria-live") == "polite"]


def test_data_is_what_show_prints_and_holds_its_page():
    cells = [cell for fact in facts().facts.values() for cell in fact.each]
    there = [cell for cell in cells if addresses.data(cell.fragment.id) in pages()]
    assert {cell.fragment.id for cell in cells if len(facts().by_fragment[cell.fragment.id].each) == 1} <= {
        cell.fragment.id for cell in there
    }
    for cell in there[::7]:
        name = cell.fragment.id.replace("::", "--")
        found = json.loads(pages()[f"json/{name}.json"])
        assert found.pop("page") == f"f/{name}.html"
        assert f"f/{name}.html" in pages()
        assert found == json.loads(json.dumps(cell_entry(cell)))


def test_all_data_has_every_id_that_list_has():
    """In its order, with a page of the site; and each layout that one of them has."""
    listed = json.loads(CliRunner().invoke(main, ["list", "--json"]).stdout)
    found = json.loads(pages()["json/all.json"])
    assert [entry["id"] for entry in found["fragments"]] == [entry["id"] for entry in listed]
    for entry, one in zip(found["fragments"], listed, strict=True):
        assert {**one, "min_cuda": None}.items() <= {**entry, "min_cuda": None}.items()  # which is of `list` alone
        assert entry["page"].partition("?")[0] in pages(), entry["id"]
    named = {at["layout"] for entry in found["fragments"] for at in entry["archs"].values()} - {None}
    sized = {layout for entry in found["fragments"] for *_, layout in entry.get("sizes", [])}
    assert sized <= named == set(found["layouts"]) == set(facts().tables)


def test_all_data_says_what_show_says(sample):
    """Every field that both have is equal, on every arch; `evidence` is the method, or that it is documented."""
    for entry in sample(json.loads(pages()["json/all.json"])["fragments"], 150):
        for arch, known in entry["archs"].items():
            _compare_with_show(entry, arch, known)


def _compare_with_show(entry, arch, known):
    done = CliRunner().invoke(main, ["show", entry["id"], "--arch", arch, "--json"])
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    told = done.exit_code == 0 and not all("why" in one and "table" not in one for one in printed)
    assert told == (known["evidence"] != "unknown"), (entry["id"], arch, done.output)
    for found in printed:
        remote = entry["operand"] is None  # an object for each operand of the form
        both = {"instruction"} if remote else entry.keys() & found.keys()
        assert {key: entry[key] for key in both} == {key: found[key] for key in both}, (entry["id"], arch)
        if remote and "why" in found:  # no source states this one
            continue
        method = found["status"] if remote else found["provenance"]["method"] or "documented"
        assert known["evidence"] == {"measured": "live"}.get(method, method), (entry["id"], arch)
        assert "selector" in found or known["layout"] == found.get("layout_id"), (entry["id"], arch)


@pytest.mark.full
def test_pages_count_the_same():
    """The first page and those of archs say what `list` says."""
    said = CliRunner().invoke(main, ["list", "*"]).stderr
    numbers = re.findall(r"\d+", said.splitlines()[-1])
    for name in ("index.html", "a/sm_90.html", "a/sm_70.html"):
        (words,) = re.findall(r"\d+ ids: .*? hold nothing in registers", pages()[name])
        assert {*numbers} <= {*re.findall(r"\d+", words)}
    listed = json.loads(CliRunner().invoke(main, ["list", "--json"]).stdout)
    assert f"{len(listed)} ids: {numbers[0]} fragments" in pages()["index.html"]
    entries = json.loads(pages()["json/all.json"])["fragments"]
    for arch in facts().archs:
        known = [one["archs"][arch]["evidence"] for one in entries if one["archs"].get(arch, {}).get("layout")]
        assert f"{len(known)} fragments in registers have a table" in pages()[f"a/{arch}.html"]


@pytest.mark.full
def test_every_heading_has_an_anchor_of_its_own():
    for name, text in html().items():
        ids = re.findall(r'\bid="([^"]+)"', text)
        assert len(ids) == len(set(ids)), name
        assert all("id=" in of for of in re.findall(r"<h2([^>]*)>", text)), name


def test_data_keeps_its_schema():
    validators = pytest.importorskip("jsonschema")
    schema = json.loads(pages()["json/schema.json"])
    for fact in list(facts().facts.values())[::9]:
        if not fact.sizes:
            validators.validate(json.loads(pages()[addresses.data(fact.id)]), schema)


def test_no_published_address_disappears(request):
    """A page may be added; one that people may have linked to stays. `--update-golden` adds the new ones."""
    listed = set(ADDRESSES.read_text().split()) if ADDRESSES.exists() else set()
    if request.config.getoption("--update-golden"):
        ADDRESSES.write_text("".join(f"{name}\n" for name in sorted(listed | set(html()) | set(data_names()))))
        return
    assert sorted(listed - set(pages())) == []
    folders = {name.partition("/")[0] for name in listed if "/" in name}  # of facts, archs, instructions: they may grow
    assert {name.partition("/")[0] for name in set(html()) - listed} <= folders


def test_a_renamed_page_leaves_a_stub():
    text = render(redirect("f/old.html", "f/new.html"))
    assert '<a href="../f/new.html">' in text
    assert 'http-equiv="refresh" content="0; url=../f/new.html"' in text


def test_every_n_of_a_warpgroup_has_a_page():
    """One for all of them; pages of one N, as there were, lead to it."""
    of = facts().by_fragment
    for row in inventory.executed_by(WARPGROUP):
        for fragment in row.fragments:
            fact = of[fragment.id]
            assert fact.id == fragment.id.replace(f"n{row.shape.n}k", "nNk")
            assert addresses.fact(fact.id) in pages()
            if row.shape.n in (8, 24):
                to = f"{addresses.fact(fact.id)}?n={row.shape.n}" if fact.grows else addresses.fact(fact.id)
                assert f'content="0; url=../{to}"' in pages()[addresses.fact(fragment.id)]


@pytest.mark.full
def test_an_n_of_another_table_or_another_run_stands_by_itself(tmp_path):
    """What was measured here of one N is not part of what is published of the others."""
    row = "wgmma.mma_async.m64n16k16.f32.f16.f16"
    here, found = Results(tmp_path), published().measurement("sm_90", "live", row)
    table = found.tables["d"]
    turned = table.with_values({name: column[::-1] for name, column in table.values.items()})
    tables = {**found.tables, "d": turned}
    here.write(replace(found, tables=tables, structure=predict_hash(inventory.instructions()[row], tables)))
    facts = gather(Layers([*alone(here).layers, *alone(published()).layers]))
    every, own = facts.facts[f"{row.replace('n16k', 'nNk')}.d"], facts.facts[f"{row}.d"]
    assert own.main.table == turned
    assert not own.sizes
    assert row not in {cell.fragment.experiment for cell in every.sizes}
    assert len(every.sizes) == 31
    assert len(facts.facts[f"{row.replace('n16k', 'nNk')}.a"].sizes) == 31  # its A is the same, of another run


def data_names():
    return {name for name in pages() if name.startswith("json/")}


def test_the_size_of_the_families_that_a_target_was_set_for():
    """Pages, data and pictures of wmma and of dense mma, with all that pages share, but the data of all together."""
    own = [fact for fact in facts().facts.values() if fact.fragment.family in ("wmma", "mma")]
    there = replace(facts(), facts={fact.id: fact for fact in own})
    names = {
        name for name in pages() if name.partition("/")[0] not in ("f", "json", "l", "m", "path", "recipes", "svg")
    }
    names |= {*pictures(there)}
    names |= {find(fact.id) for fact in own for find in (addresses.fact, addresses.data)}
    names |= {addresses.layout(id_) for id_ in there.tables}
    names |= {addresses.instruction(row.id) for row in there.instructions.values()}
    assert sum(len(pages()[name].encode()) for name in names) < 20e6  # pages say of every arch what they rest on


def test_the_size_of_the_whole_site():
    assert sum(len(text.encode()) for text in pages().values()) <= 4e6 * len(ARCHS)
    assert len(pages()) <= 6000
    assert len(pages()["search.json"].encode()) <= 160 * KB


def test_the_first_view_of_the_first_page():
    """With the scripts that it loads at once."""
    scripts = re.findall(r'<script src="([^"]+)"', pages()["index.html"])
    assert sum(len(pages()[name].encode()) for name in ("index.html", "site.css", "icon.svg", *scripts)) < 100 * KB


def test_a_page_loads_few_small_scripts():
    """Below 60 KB as they are written; with what the search adds, once somebody searches, below 70 KB."""
    for name in ("index.html", "play/banks.html", "diff.html", *(n for n in sorted(html()) if n[1] == "/")):
        scripts = set(re.findall(r'<script(?: id="names")? src="(?:\.\./)?([^"]+)"', pages()[name])) - {"search.js"}
        assert sum(len(pages()[one].encode()) for one in scripts) <= 60 * KB, name
        assert sum(len(pages()[one].encode()) for one in scripts | {"find.js", "maps.js"}) <= 70 * KB, name


def test_sizes():
    sizes = [len(text.encode()) for text in html().values()]
    assert statistics.median(sizes) <= 16 * KB
    assert max(sizes) <= 64 * KB
    assert len(pages()["site.css"].encode()) <= 16 * KB
    assert len(pages()["search.js"].encode()) <= 64 * KB


def test_a_page_says_who_else_has_a_layout_and_where():
    text = pages()[addresses.layout("86a99ca79545")]
    assert "mma.m16n8k16.row.col.f32.f16.f16.f32</a> .c .d" in text
    assert "wmma" in pages()[addresses.layout("3a957efdf0e5")]


def test_data_for_the_script_has_every_arch():
    for fact in list(facts().facts.values())[::11]:
        data = data_of(pages()[addresses.fact(fact.id)])
        assert {arch: data["layouts"][at[0]]["id"] for arch, at in archs_of(data).items()} == {
            arch: cell.table.id for arch, cell in fact.cells.items()
        }
