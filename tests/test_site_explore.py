"""What one explores in Chromium: whole lanes, colours, SVG; two sides compared; a pasted table; what is on paper."""

import re
import xml.etree.ElementTree as ET

import pytest
from site_chromium import needed, open_, until
from test_diagnose import changed, text_of

from tcprobe.store.cell import load

pytestmark = needed
MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
A, EVERY_N = f"f/{MMA}.a.html", "f/wgmma.mma_async.m64nNk16.f32.f16.f16.d.html"
D = load("wmma.m16n16k16.d.f32", "sm_90")


def marked(page, kind="matrix"):
    return page.locator(f".{kind} td.of").all_inner_texts()


def again(page, base, address):
    """The address in a fresh page: one that differs in the fragment part alone would not be loaded."""
    page.goto("about:blank")
    open_(page, base, address)


def test_a_group_is_hovered_chosen_and_in_the_address(watched, base):
    open_(watched, base, A)
    choices = watched.locator(".filters select")
    choices.nth(1).select_option("a quad")
    watched.locator(".matrix tbody td").first.hover()
    held = load(f"{MMA}.a").table
    quad = {f"{lane}:{i}" for lane in range(4) for i in range(8)}
    assert set(marked(watched)) == quad
    assert len(marked(watched)) == sum(held.cells[lane * 8 + i] is not None for lane in range(4) for i in range(8))
    assert len(marked(watched, "lanes")) == 16
    choices.nth(2).select_option("5")
    choices.nth(0).select_option("register")
    assert watched.url.endswith("#colour=register&all=quad,5")
    again(watched, base, f"{A}#colour=register&all=quad,5")
    assert {text.split(":")[0] for text in marked(watched)} == {"20", "21", "22", "23"}
    shades = (
        watched.locator(".lanes tbody tr").first.locator("td").evaluate_all("cells => cells.map((td) => td.className)")
    )
    assert shades == ["c0", "c1", "c2", "c3"]
    watched.locator(".lanes thead th").nth(2).click()  # register 2
    assert watched.url.endswith("all=register,2")
    assert len(marked(watched, "lanes")) == 32
    assert {text.split(":")[1] for text in marked(watched)} == {"4", "5"}


def test_keys_take_the_whole_lane_along(watched, base):
    open_(watched, base, A)
    watched.locator(".filters select").nth(1).select_option("a lane")
    watched.locator(".matrix tbody td").first.focus()
    for key in ("Enter", "ArrowDown"):
        watched.keyboard.press(key)
    assert {text.split(":")[0] for text in marked(watched)} == {"4"}
    assert len(marked(watched)) == 8


def test_a_lane_is_marked_in_all_operands_and_a_warp_comes_into_view(watched, base):
    open_(watched, base, f"m/{MMA}.html#all=lane,9")
    for operand, count in (("a", 8), ("b", 4), ("d", 4)):
        texts = watched.locator(f".in-{operand} td.of").all_inner_texts()
        assert {text.split(":")[0] for text in texts} == {"9"}
        assert len(texts) == count
    again(watched, base, f"{EVERY_N}?n=128#all=lane,100")
    assert watched.locator(".matrix tbody th").first.inner_text() == "48"
    assert len(marked(watched, "lanes")) == 64


@pytest.mark.parametrize(
    "hash_", ["colour=evil", "colour=constructor", "all=lane,32", "all=warp,0", "all=<img src=x>,3", "all=register,99"]
)
def test_an_address_that_asks_for_what_is_not_there_says_so(watched, base, hash_):
    open_(watched, base, f"{A}#{hash_}")
    assert "default" in watched.locator("p.differs[aria-live]").first.inner_text()
    assert marked(watched) == []
    assert watched.locator("img[src=x]").count() == 0


def test_a_picture_is_an_svg_with_every_element(watched, base, tmp_path):
    open_(watched, base, f"{A}#colour=byte")
    watched.locator("summary", has_text="This picture").click()
    with watched.expect_download() as download:
        watched.locator("details button").first.click()
    download.value.save_as(tmp_path / "a.svg")
    drawn = ET.parse(tmp_path / "a.svg").getroot()
    texts = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    table = load(f"{MMA}.a").table
    slots = {f"{slot // 8}:{slot % 8}" for slot in range(table.points)}
    assert slots <= set(texts)
    assert "&amp;" not in watched.locator("details pre").first.inner_text()
    assert watched.locator("details pre").nth(1).inner_text().startswith("<iframe src=")


@pytest.mark.full
def test_n_128_is_at_most_6000_nodes_and_four_pages(watched, base):
    for n in (128, 256):
        again(watched, base, f"{EVERY_N}?n={n}")
        assert watched.evaluate("document.querySelectorAll('*').length") <= 6000
    again(watched, base, f"{EVERY_N}?n=128")
    assert len(re.findall(rb"/Type\s*/Page\b", watched.pdf(format="A4"))) <= 4


def pasted(page, text):
    page.locator("#table").fill(text)
    page.locator("#agreed").evaluate("(place) => { place.textContent = ''; }")
    page.locator("#paste button").first.click()
    until(page, "document.querySelector('#agreed').textContent")
    return page.locator("#agreed").inner_text(), page.locator("#said li").all_inner_texts()


def compared(page, base, hash_=""):
    again(page, base, f"compare.html{hash_}")
    until(page, "document.querySelector('.side td[class^=c]')")


def test_two_archs_side_by_side(watched, base):
    compared(watched, base)
    assert watched.locator("#agreed").inner_text() == "248 of 256 elements have different holders."
    assert watched.locator(".side td.moved").count() == 2 * 248
    compared(watched, base, "#a=wmma.m16n16k16.d.f32&on=sm_75&b=wmma.m16n16k16.d.f32&with=sm_90")
    assert watched.locator("#agreed").inner_text().startswith("0 of 256")
    assert watched.locator("#command").inner_text() == "tcprobe diff sm_75 sm_90 wmma.m16n16k16.d.f32"


def test_a_pasted_table_gets_the_diagnosis_of_the_command(watched, base):
    compared(watched, base)
    watched.locator("[name=on]").select_option("sm_90")
    count, lines = pasted(watched, text_of(changed(D.table, cell=lambda row, col: (col, row))))
    assert count == "16 of 256 slots agree."
    assert "diagnosis: transposed: row and column are swapped" in lines
    count, lines = pasted(watched, text_of(load("wmma.m16n16k16.d.f32", "sm_70").table))
    assert lines[-1] == "this is: wmma.m16n16k16.d.f32 on sm_70, wmma.m16n16k16.d.f32 on sm_72"
    assert pasted(watched, text_of(D.table))[0] == "256 of 256 slots agree. It is right."


def test_hostile_tables_and_addresses_do_nothing(watched, base):
    compared(watched, base)
    assert pasted(watched, "lane,i,row,col\n0,0,<img src=x onerror=evil()>,0")[0] == "No table was compared."
    assert "'0,0,<img src=x onerror=evil()>,0'" in watched.locator("#wrong").inner_text()
    for hash_ in (
        "#a=%3Cimg%20src=x%3E",
        "#a=__proto__&on=constructor",
        "#block=99999999",
        "#a=wmma.m16n16k16.d.f32&on=sm_1",
    ):
        compared(watched, base, hash_)
        assert "default" in watched.locator("#wrong").inner_text()
        assert watched.locator("#agreed").inner_text() == "248 of 256 elements have different holders."
    assert watched.locator("img[src=x]").count() == 0
