"""The script builds the very tables that are published: every fragment on every arch, from the bases in its page."""

import json
import re
import shutil
import subprocess

import pytest
from site_pages import archs_of, data_of, facts, pages

from tcprobe.isa import inventory
from tcprobe.layout.grid import blocks
from tcprobe.layout.table import Axis, Space, Table, slot_table
from tcprobe.pages.site import addresses, markup
from tcprobe.pages.site.data_files import layout, sizes

NODE = shutil.which("node") or shutil.which("nodejs")
pytestmark = pytest.mark.skipif(not NODE, reason="no Node.js to run the script in; the browser tests run it too")

RUN = """
const { readFileSync } = require("fs");
require("vm").runInThisContext(readFileSync(process.argv[1], "utf8"));
const wanted = JSON.parse(readFileSync(0, "utf8"));
const drawn = (block, size) => [block.title, tcprobe.matrixRows(block), tcprobe.laneRows(block, size)];
console.log(JSON.stringify(wanted.map(([size, layout]) =>
  [tcprobe.expand(layout), tcprobe.blocks(layout, size).map((block) => drawn(block, size))])));
"""


def run(tmp_path, wanted):
    """What the published script makes of (sizes, layout)."""
    script = tmp_path / "maps.js"
    script.write_text(pages()["maps.js"])
    done = subprocess.run(
        [NODE, "-e", RUN, str(script)], input=json.dumps(wanted), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def cells(table):
    return [None if cell is None else list(cell) for cell in table.cells]


def test_every_fragment_on_every_arch(tmp_path, sample):
    asked, expected = [], []
    for fact in sample(facts().facts.values(), 31):
        data = data_of(pages()[addresses.fact(fact.id)])
        assert set(archs_of(data)) == set(fact.cells)
        for id_ in fact.tables:
            number = next(n for n, found in enumerate(data["layouts"]) if found["id"] == id_)
            asked.append((data, data["layouts"][number]))
            expected.append(fact.tables[id_])
        assert all(data["layouts"][at[0]]["id"] == fact.cells[arch].table.id for arch, at in archs_of(data).items())
    found = run(tmp_path, asked)
    assert [values for values, _ in found] == [cells(table) for table in expected]


@pytest.mark.full
def test_every_n(tmp_path):
    """A page for every N gives the layout of the largest: of as many elements as an N has it is that N's own."""
    asked, expected = {}, {}
    for fact in (fact for fact in facts().facts.values() if fact.grows):
        data = data_of(pages()[addresses.fact(fact.id)])
        given = data["layouts"][archs_of(data)[data["main"]][0]]
        assert [tuple(of) for of in data["sizes"]] == [
            (c.fragment.shape.n, c.fragment.cols, c.fragment.elements, c.table.id) for c in fact.sizes
        ]
        for cell, (_, cols, elements, id_) in zip(fact.sizes, data["sizes"], strict=True):
            inputs = [[name, elements if name == "i" else size] for name, size in given["in"]]
            asked[given["id"], id_] = (data | {"cols": cols, "elements": elements}, given | {"in": inputs})
            expected[given["id"], id_] = cell.table
    assert len(expected) >= 32
    for key, (values, drawn) in zip(asked, run(tmp_path, list(asked.values())), strict=True):
        assert values == cells(expected[key])
        assert len(drawn) == 1


def same(html):
    """Without the quotes and end tags that HTML lets one leave out, and without colours."""
    return re.sub(r"</t[dhr]>| class=[^ >]*( d\d)?", "", html.replace('"', ""))


def agrees(script, page):
    """That the script's rows begin with those of the page."""
    rows = same(str(page.markup)).removesuffix("</tbody>")
    assert same(script).startswith(rows)
    assert rows.count("<tr") == page.rows + 1


def test_it_draws_what_the_page_had(tmp_path, sample):
    """Matrix and registers, character by character, also of layouts that are not the page's own."""
    pairs = [(fact.fragment, table) for fact in facts().facts.values() for table in fact.tables.values()]
    once = list({(table.id, fragment.slot_bits): (fragment, table) for fragment, table in pairs}.values())
    once = sample(once, 7)
    found = run(tmp_path, [(sizes(fragment), layout(table)) for fragment, table in once])
    for (fragment, table), (_, drawn) in zip(once, found, strict=True):
        for block, (title, matrix, lanes) in zip(blocks(table, fragment), drawn, strict=True):
            assert title == block.title
            agrees(lanes, markup.registers(block, fragment))
            agrees(matrix, markup.matrix(block))


def test_what_is_not_linear_and_what_a_selector_chooses(tmp_path):
    """Values instead of bases; unused slots; an input before lane and i; several products."""
    d = inventory.fragments()["wmma.m8n8k4.d.f64"]
    order = [*range(64)]
    order[3], order[40], order[17] = order[40], order[17], order[3]
    odd = slot_table(32, 2, {"row": tuple(n // 8 for n in order), "col": tuple(n % 8 for n in order)})
    holes = slot_table(
        32, 2, {"row": (None, 0, *(n // 8 for n in order[2:])), "col": (None, 1, *(n % 8 for n in order[2:]))}
    )
    space = Space((Axis("selector", 2), *odd.space.axes))
    chosen = Table(space, {name: odd.values[name] + tuple(reversed(odd.values[name])) for name in ("row", "col")})
    tables = [odd, holes, chosen]
    found = run(tmp_path, [(sizes(d), layout(table)) for table in tables])
    assert "values" in layout(odd)
    for table, (values, drawn) in zip(tables, found, strict=True):
        assert values == cells(table)
        for block, (title, matrix, lanes) in zip(blocks(table, d), drawn, strict=True):
            assert title == block.title
            agrees(matrix, markup.matrix(block))
            agrees(lanes, markup.registers(block, d))
    assert [title for title, _, _ in found[2][1]] == ["selector 0", "selector 1"]
