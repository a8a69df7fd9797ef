"""The search: what people and commands say leads to the right page first; answers in the list are the library's."""

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from site_pages import facts, pages

from tcprobe.ask.registers import elements_held, where
from tcprobe.isa.names import resolve
from tcprobe.layout.descriptor import decode

NODE = shutil.which("node") or shutil.which("nodejs")
pytestmark = pytest.mark.skipif(not NODE, reason="no Node.js to run the script in; a browser test runs it too")
PHRASES = json.loads(
    (Path(__file__).parent / "data" / "phrases.json").read_text()
)  # phrase: the first page, or one of several

RUN = """
const { readFileSync } = require("fs");
for (const name of process.argv.slice(1)) require("vm").runInThisContext(readFileSync(name, "utf8"));
const asked = JSON.parse(readFileSync(0, "utf8")), { find } = tcprobe.search(tcprobeWords);
console.log(JSON.stringify(asked.map((text) => find(text))));
"""


def found(tmp_path, asked):
    """The results of each phrase."""
    names = [tmp_path / name for name in ("maps.js", "find.js", "words.js")]
    for name in names:
        name.write_text(pages()[name.name])
    done = subprocess.run(
        [NODE, "-e", RUN, *map(str, names)], input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_people_say_leads_to_the_right_page_first(tmp_path):
    """At least 19 of 20, and every result is a page of the site."""
    wrong = {}
    for (phrase, page), hits in zip(PHRASES.items(), found(tmp_path, list(PHRASES)), strict=True):
        assert all(hit["page"].split("?")[0].split("#")[0] in pages() for hit in hits), phrase
        if not hits or not hits[0]["page"].startswith(tuple(page.split("|"))):
            wrong[phrase] = hits[0]["page"] if hits else None
    assert len(PHRASES) >= 200
    assert len(wrong) <= len(PHRASES) // 20, wrong


def test_an_id_leads_to_itself(tmp_path, sample):
    ids = sample([fact.id for fact in facts().facts.values()], 40)
    for id_, hits in zip(ids, found(tmp_path, ids), strict=True):
        assert hits[0]["text"] == id_


@pytest.mark.full
def test_an_element_s_holder_is_the_library_s(tmp_path):
    """Of single fragments, by their ids, on the main arch and on others."""
    pick, asked, expected = random.Random(5), [], []
    facts_ = [
        fact
        for fact in facts().facts.values()
        if not fact.sizes and len(fact.main.table.space.axes) == 2 and {"row", "col"} == set(fact.main.table.outputs)
    ]
    for fact in pick.sample(facts_, 60):
        arch = pick.choice(list(fact.cells))
        row, col = pick.randrange(fact.fragment.rows), pick.randrange(fact.fragment.cols)
        asked.append(f"{fact.id} {arch} {row},{col}")
        expected.append("; ".join(f"lane {h.lane}, i {h.i}" for h in where(fact.cells[arch], [row], [col])))
    answers = found(tmp_path, asked)
    for text, hits, holders in zip(asked, answers, expected, strict=True):
        if holders:
            assert hits[0]["text"] == holders, text


def test_answers_in_the_list(tmp_path):
    asked = [
        "m16n8k16 bf16 d 3,5",
        "m16n8k16 f16 a lane 12 i 5",
        "0x4000004000010000",
        "wgmma m64n128k16 f32 f16 d 40,100",
        "wmma m16n16k16 f16 a row sm_70 3,9",
        "m16n8k16 bf16 d 99,5",
    ]
    hits = found(tmp_path, asked)
    assert [one[0]["text"] for one in hits[:5]] == [
        "lane 14, i 1",
        "A[3][9]",
        "start 0, LBO 16, SBO 1024, base offset 0, swizzle 128B",
        "thread 66, i 50",
        "lane 3, i 9; lane 11, i 9",
    ]
    assert hits[0][0]["page"] == "f/mma.m16n8k16.row.col.f32.bf16.bf16.f32.d.html#r=3&c=5"
    assert hits[3][0]["page"] == "f/wgmma.mma_async.m64nNk16.f32.f16.f16.d.html?n=128#r=40&c=100"
    cell = facts().facts["mma.m16n8k16.row.col.f32.f16.f16.f32.a"].main
    assert [(h.row, h.col) for h in elements_held(cell, [12], [5])] == [(3, 9)]
    assert hits[5][0]["text"].startswith("mma.")  # no answer where there is no such element


def test_a_register_is_not_taken_for_an_element(tmp_path):
    """The table of words does not say how many elements a register has, so none is named; the fragment comes first."""
    hits = found(tmp_path, ["lane 12 register 2 of mma.m16n8k16 a", "m16n8k16 f16 f32 a lane 12 reg 2"])
    assert [one[0]["page"] for one in hits] == ["f/mma.m16n8k16.row.col.f32.f16.f16.f32.a.html"] * 2


def test_descriptors_are_decoded_as_the_library_does(tmp_path):
    pick = random.Random(3)
    known = 0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 7 << 49 | 3 << 62
    values = [pick.getrandbits(64) & known & ~(3 << 46) for _ in range(40)]
    for value, (hit,) in zip(values, found(tmp_path, [hex(value) for value in values]), strict=True):
        one = decode(value)
        swizzle = f"swizzle {one.swizzle}B" if one.swizzle else "no swizzle"
        said = f"start {one.start}, LBO {one.lbo}, SBO {one.sbo}, base offset {one.base_offset}, {swizzle}"
        assert hit["text"] == said


def test_hostile_phrases_find_nothing_or_pages(tmp_path):
    asked = [
        "<img src=x onerror=evil()>",
        "0x" + "f" * 16,
        "0x" + "f" * 99,
        "__proto__",
        "constructor",
        "(" * 500,
        "a" * 5000,
        "[[[[",
        "\\",
        "  ",
        "9" * 400 + ",1",
        "lane 99999999999 i 1 m16n8k16 f16 a",
    ]
    for hits in found(tmp_path, asked):
        assert all(hit["page"].split("?")[0].split("#")[0] in pages() for hit in hits)


def test_the_commands_read_the_same_words():
    """Where a phrase is a name for commands, they mean the page's fragments too."""
    for phrase in ("m16n8k16 bf16 d", "wmma m16n16k16 a row f16", "SM80_16x8x16_F32F16F16F32_TN"):
        assert resolve(phrase).fragments
