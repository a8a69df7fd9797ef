"""The site in Chromium: from a file and over HTTP under a prefix, with keys and a pointer; what is printed, too."""

import json
import re

from site_chromium import both, needed, open_, until
from site_pages import pages

pytestmark = needed

MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
A = f"f/{MMA}.a.html"
WMMA = "f/wmma.m16n16k16.a.row.f16.html"
EVERY_N = "f/wgmma.mma_async.m64nNk16.f32.f16.f16.d.html"


def readout(page):
    return page.locator("#readout").inner_text()


def cell(page, row, col, kind="matrix"):
    return page.locator(f".{kind} tbody tr").nth(row).locator("td").nth(col)


@both
def test_a_deep_link_to_an_element(watched, base):
    open_(watched, base, f"{A}#r=3&c=9")
    assert readout(watched) == "A[3][9]: lane 12, i 5, register 2, bits 16 to 31"
    assert cell(watched, 3, 9).get_attribute("class").split() == ["c4", "on"]
    assert [td.inner_text() for td in watched.locator(".lanes td.on").all()] == ["3,8..9"]


def test_a_deep_link_to_a_slot(watched, base):
    open_(watched, base, f"{A}#lane=12&i=5")
    assert readout(watched) == "A[3][9]: lane 12, i 5, register 2, bits 16 to 31"
    assert [td.inner_text() for td in watched.locator(".matrix td.on").all()] == ["12:5"]


def test_hover_and_click(watched, base):
    open_(watched, base, A)
    cell(watched, 0, 0).hover()
    assert readout(watched).startswith("A[0][0]: lane 0, i 0, register 0, bits 0 to 15")
    cell(watched, 15, 15).click()
    assert readout(watched).startswith("A[15][15]: lane 31, i 7")
    assert watched.url.endswith("#r=15&c=15")
    cell(watched, 12, 2, "lanes").click()
    assert readout(watched).startswith("A[3][8]: lane 12, i 4")
    assert watched.url.endswith("#lane=12&i=4")


def test_keys(watched, base):
    open_(watched, base, A)
    cell(watched, 0, 0).focus()
    for key in ("Enter", "ArrowDown", "ArrowDown", "ArrowRight"):
        watched.keyboard.press(key)
    assert readout(watched).startswith("A[2][1]: lane 8, i 1")
    for key in ("ArrowUp",) * 4:
        watched.keyboard.press(key)
    assert readout(watched).startswith("A[0][1]: lane 0, i 1")
    cell(watched, 0, 0, "lanes").click()
    watched.keyboard.press("ArrowRight")
    assert readout(watched).startswith("A[0][1]: lane 0, i 1")


@both
def test_an_arch_keeps_the_element_and_says_how_many_differ(watched, base):
    open_(watched, base, f"{WMMA}#r=3&c=9")
    assert readout(watched).startswith("A[3][9]: lane 12, i 5")
    watched.locator("[data-arch=sm_70]").click()
    until(watched, "document.querySelector('#readout').textContent.includes('lane 3, i 9')")
    assert "?arch=sm_70" in watched.url
    assert watched.url.endswith("#r=3&c=9")
    assert watched.locator("#differs").inner_text() == "256 of 256 elements are held elsewhere than on sm_90."
    assert watched.locator("td.moved").count() == 0
    assert watched.locator("#formula").inner_text().splitlines()[1] == "col = i"
    assert cell(watched, 3, 9).inner_text() == "3:9 11:9"
    assert watched.locator("#evidence").inner_text().startswith("sm_70: measured: sass")


@both
def test_a_deep_link_with_an_arch(watched, base):
    open_(watched, base, f"{WMMA}?arch=sm_70#lane=3&i=9")
    assert readout(watched) == "A[3][9]: lane 3, i 9, register 4, bits 16 to 31"
    assert watched.locator("#differs").inner_text().startswith("256 of 256")


def test_what_the_script_draws_is_what_the_page_had(watched, base, browser):
    """On the page's own arch nothing changes but what is chosen."""
    context = browser.new_context(java_script_enabled=False)
    still = context.new_page()
    for address in (A, WMMA, "f/mma.m16n8k256.row.col.s32.b1.b1.s32.xor.popc.a.html"):
        open_(watched, base, address)
        still.goto(base + address)
        for kind in ("matrix", "lanes"):
            one, two = (of.locator(f".{kind}").all_inner_texts() for of in (watched, still))
            assert one == two
    context.close()


@both
def test_search(watched, base):
    open_(watched, base, A)
    watched.keyboard.press("/")
    watched.keyboard.type("wmma accumulator m16n16k16 f32 sm_75")
    links = watched.locator("#results a")
    links.first.wait_for()
    assert links.all_inner_texts()[:2] == ["wmma.m16n16k16.c.f32", "wmma.m16n16k16.d.f32"]  # related pages follow
    watched.keyboard.press("ArrowDown")
    watched.keyboard.press("Enter")
    watched.wait_for_url("**/f/wmma.m16n16k16.c.f32.html?arch=sm_75")
    assert watched.locator("#evidence").inner_text().startswith("sm_75:")


@both
def test_n_is_chosen(watched, base):
    open_(watched, base, f"{EVERY_N}#r=3&c=6")
    assert readout(watched).startswith("D[3][6]: thread 15, i 0, register 0")
    assert watched.locator(".matrix tbody tr").first.locator("td").count() == 8
    watched.locator("#n select").select_option("128")
    until(watched, "location.search === '?n=128'")
    assert readout(watched).startswith("D[3][6]: thread 15, i 0, register 0")
    assert watched.locator(".matrix tbody th").all_inner_texts() == [str(row) for row in range(16)]  # warp 0's band
    assert watched.locator(".lanes tbody th").all_inner_texts() == [str(lane) for lane in range(32)]
    watched.locator(".block").locator("xpath=preceding-sibling::label").locator("select").select_option(index=2)
    assert watched.locator(".matrix tbody th").all_inner_texts() == [str(row) for row in range(32, 48)]
    assert watched.locator(".lanes tbody th").all_inner_texts() == [str(lane) for lane in range(64, 96)]
    assert len(watched.locator("#csv").text_content().splitlines()) == 64 * 128 + 1
    open_(watched, base, f"{EVERY_N}?n=256#r=63&c=255")
    assert readout(watched).startswith("D[63][255]: thread 127, i 127, register 127")
    assert watched.locator("#n a").inner_text() in watched.locator("#n a").get_attribute("href")


def test_an_address_of_one_n_leads_to_it(watched, base):
    watched.goto(base + "f/wgmma.mma_async.m64n24k16.f32.f16.f16.d.html")
    watched.wait_for_url("**/f/wgmma.mma_async.m64nNk16.f32.f16.f16.d.html?n=24")
    assert watched.locator(".matrix tbody tr").first.locator("td").count() == 24


def test_search_of_an_n(watched, base):
    open_(watched, base, "index.html")
    watched.keyboard.press("/")
    watched.keyboard.type("wgmma m64n128k16 f32.f16 d")
    watched.locator("#results a").first.wait_for()
    hrefs = [a.get_attribute("href") for a in watched.locator("#results a").all()]
    assert f"{EVERY_N}?n=128" in hrefs


def test_filters(watched, base):
    open_(watched, base, "index.html")
    shown = watched.locator("tbody tr[data-family]:visible")
    every = shown.count()
    watched.locator("[data-filter=family]").select_option("wmma")
    watched.locator("[data-filter=arch]").select_option("sm_70")
    assert 0 < shown.count() < every
    assert all("wmma" in text for text in shown.all_inner_texts())


def test_a_layout_is_coloured_as_its_fragments_are(watched, base):
    colours = "Array.from(document.querySelectorAll('.matrix td, .lanes tr'), (cell) => cell.className)"
    for address, layout in ((A, "6f521bd25bff"), (WMMA, "3a957efdf0e5")):
        open_(watched, base, address)
        expected = watched.evaluate(colours)
        open_(watched, base, f"l/{layout}.html")
        assert watched.evaluate(colours) == expected
        assert {name[:1] for name in expected} == {"", "c"}


def test_a_trace(watched, base):
    open_(watched, base, f"m/{MMA}.html")
    watched.locator(".in-d tbody tr").nth(3).locator("td").nth(5).click()
    assert readout(watched) == "D[3][5]: lane 14, i 1"
    meets = watched.locator("#meets li").all_inner_texts()
    assert len(meets) == 16
    assert meets[9] == "A[3][9] (lane 12, i 5) · B[9][5] (lane 20, i 3) · D[3][5] (lane 14, i 1)"
    assert watched.locator(".in-a td.on").count() == 16
    watched.locator(".in-a tbody tr").nth(3).locator("td").nth(9).click()
    assert watched.locator(".in-b td.on").count() == 8
    assert watched.locator(".in-d td.on").all_inner_texts() == [
        "12:0",
        "12:1",
        "13:0",
        "13:1",
        "14:0",
        "14:1",
        "15:0",
        "15:1",
    ]


@both
def test_differences(watched, base):
    open_(watched, base, "diff.html?a=sm_75&b=sm_70")
    heads = watched.locator("#found h2").all_inner_texts()
    changed = watched.locator("#found > ul li").all_inner_texts()
    assert len(heads) >= 10
    assert "wmma.m16n16k16.a.row.f16" in changed
    watched.locator("select[name=b]").select_option("sm_75")
    assert watched.locator("#found").inner_text().startswith("No table differs.")


def test_phases_step_by_step(watched, base):
    open_(watched, base, "s/ldmatrix-of-a.html")
    tabs = watched.locator(".tabs").first.locator("[role=tab]")
    assert tabs.all_inner_texts() == ["Phase 0", "Phase 1", "Phase 2", "Phase 3"]
    tabs.first.focus()
    watched.keyboard.press("ArrowRight")
    assert (
        watched.locator(".tabs")
        .first.locator("[role=tabpanel]:visible p")
        .first.inner_text()
        .startswith("Lanes 8 to 15: 8 passes")
    )


def test_csv_and_code(watched, base):
    open_(watched, base, A)
    watched.locator("[role=tab]", has_text="CSV").click()
    lines = watched.locator("#csv").inner_text().splitlines()
    assert lines[0] == "lane,i,row,col"
    assert len(lines) == 257
    assert "12,5,3,9" in lines


def test_pictures_render(page, base):
    page.goto(f"{base}svg/6f521bd25bff-16.svg")
    assert page.evaluate("document.querySelectorAll('g > title').length") == 256
    outside = """Array.from(document.querySelectorAll("g:has(> title)")).filter((g) => {
      const cell = g.querySelector("path").getBBox(), text = g.querySelector("text").getBBox();
      return text.x < cell.x || text.x + text.width > cell.x + cell.width || text.y < cell.y - 1;
    }).length"""
    for picture in sorted(name for name in pages() if name.startswith("svg/"))[::9]:
        page.goto(base + picture)
        assert page.evaluate(outside) == 0, picture
    page.goto(f"{base}svg/6f521bd25bff-16.svg")
    assert page.evaluate("getComputedStyle(document.querySelector('.c1')).fill") == "rgb(254, 230, 182)"


def test_the_script_says_the_published_tables_in_the_browser(page, base):
    """What the tests of the script say in Node.js, here for some pages."""
    for name in (A, WMMA, "f/mma.m8n8k4.row.col.f32.f16.f16.f32.d.html"):
        page.goto(base + name)
        found = page.evaluate("tcprobe.expand(JSON.parse(document.querySelector('#data').textContent).layouts[0])")
        data = json.loads(pages()[re.sub("^f/(.*)html$", r"json/\1json", name)])
        flat = [cell for lane in data["table"] for cell in lane]
        assert [value[:2] for value in found] == flat


def test_each_product_is_named(watched, base):
    open_(watched, base, "m/mma.m8n8k4.row.col.f32.f16.f16.f32.html")
    said = watched.locator(".composite caption").all_inner_texts()
    sizes = ("A 8 x 4", "B 4 x 8", "D 8 x 8")
    assert sorted(said) == sorted(f"{size}, product {n}" for size in sizes for n in range(4))
    open_(watched, base, f"m/{MMA}.html")
    assert sorted(watched.locator(".composite caption").all_inner_texts()) == ["A 16 x 16", "B 16 x 8", "D 16 x 8"]


def test_the_first_page_reads_archs_and_says_what_it_does_not_know(watched, base):
    """An arch among the words counts as one that is chosen; the link leads to what is drawn."""
    open_(watched, base, "index.html")
    box, link = watched.locator("#ask"), watched.locator("#live-page")
    for text, page, arch in (
        ("wmma m16n16k16 a row f16 sm_70", f"{WMMA}?arch=sm_70", "on sm_70"),
        ("m16n8k16 f16 f32 a", A, "on sm_90"),
    ):
        box.fill(text)
        box.press("Enter")
        until(watched, "([id, arch]) => document.querySelector('#live-page').href.endsWith(id)", [page, arch])
        assert watched.locator("#live-arch").inner_text() == arch
    box.fill("nothing known")
    box.press("Enter")
    until(watched, "document.querySelector('#live-wrong').textContent.startsWith('Nothing in registers is called')")
    assert link.get_attribute("href").endswith(A)


def test_the_search_leads_to_an_element_that_is_drawn(watched, base):
    """Of a form for every N the link names an N that has the element."""
    open_(watched, base, "index.html")
    watched.keyboard.press("/")
    watched.keyboard.type("wgmma d 40,200")
    watched.locator("#results a").first.wait_for()
    until(watched, "document.querySelector('#results a').textContent.startsWith('thread 64, i 102')")
    watched.locator("#results a").first.click()
    until(watched, "document.querySelector('#readout')?.textContent.startsWith('D[40][200]: thread 64, i 102')")


def test_heads_cover_what_is_scrolled_below_them(watched, base):
    """The corner, too: else the number of a row stands there above no row."""
    open_(watched, base, "m/mma.sp.m16n8k32.row.col.f32.f16.f16.f32.html#d=3,5")
    seen = """Array.from(document.querySelectorAll(".in-b thead :is(td, th)")).every((head) => {
      const { x, y, width, height } = head.getBoundingClientRect(), body = head.closest("table").tBodies[0];
      return body.getBoundingClientRect().y < y && document.elementFromPoint(x + width / 2, y + height / 2) === head
        && !getComputedStyle(head).backgroundColor.endsWith(", 0)");
    })"""
    until(watched, seen)
