"""Every kind of page: opens quietly, in files and over HTTP; axe finds nothing in light, in dark and on a phone."""

import pytest
from site_chromium import both, needed, open_, opened, until, violations

pytestmark = needed

MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
A, WMMA = f"f/{MMA}.a.html", "f/wmma.m16n16k16.a.row.f16.html"
KINDS = (
    "index.html",
    A,
    WMMA,
    "f/ldmatrix.m8n8.x2.shared.b16.address.html",
    "f/mma.m8n8k4.row.col.f32.f16.f16.f32.a.html",
    f"m/{MMA}.html",
    "m/ldmatrix.m8n8.x4.shared.b16.html",
    "m/family-mma-m16n8k16.html",
    "l/6f521bd25bff.html",
    "f/wgmma.mma_async.m64nNk16.f32.f16.f16.d.html",
    "f/wgmma.mma_async.m64nNk16.f32.f16.f16.a.html",
    "m/wgmma.mma_async.m64nNk16.f32.f16.f16.html",
    "a/sm_80.html",
    "s/index.html",
    "s/ldmatrix-of-a.html",
    "s/swizzle-swizzle-128b.html",
    "diff.html",
    "compare.html",
    "errata.html",
    "method.html",
    "contribute.html",
    "audit.html",
    "compilers.html",
    "recipes/index.html",
    "recipes/p-as-a.html",
    "recipes/kernel.html",
    "recipes/kernel-sm_90-bf16.html",
    "path/index.html",
    "path/sm_80-f16.html",
    "play/banks.html",
    "play/wgmma.html",
    "cost.html",
    "numerics.html",
    "tensor-memory.html",
    "m/mma.sp.m16n8k32.row.col.f32.f16.f16.f32.html",
    "m/wmma.mma.row.row.m16n16k16.f32.f32.html",
    "m/tcgen05.mma.cta_group--1.kind--f16.html",
    "m/tcgen05.ld.32x32b.html",
    "f/tcgen05.ld.red.32x32b.d.html",
    "m/family-tcgen05-m32n1.html",
)
# pages that an address changes: what is chosen, compared, drawn by the script
CHOSEN = (
    f"{WMMA}?arch=sm_70#r=3&c=9",
    f"{A}#colour=byte&all=quad,3",
    f"m/{MMA}.html#all=lane,9",
    "f/wgmma.mma_async.m64nNk16.f32.f16.f16.d.html?n=24#colour=warp",
    "play/banks.html#tile=64x64&type=f16&line=128&swizzle=3,4,3&access=ldmatrix",
    "play/wgmma.html#operand=b&n=96&tile=96x64&type=f16&major=mn&swizzle=64",
)
PHONE = {"viewport": {"width": 360, "height": 780}, "has_touch": True, "is_mobile": True}
HOW = {"light": {}, "dark": {"color_scheme": "dark"}, "phone": PHONE}
SHORTER = """document.querySelectorAll("tbody").forEach((rows) => {
  while (rows.rows.length > 16) rows.deleteRow(16);
})"""  # sixteen rows have every colour, border and kind of cell


@both
def test_every_kind_of_page_opens_quietly(watched, base, sample):
    for address in sample(KINDS, 4):
        open_(watched, base, address)
        assert watched.title().endswith("tcprobe")


@pytest.mark.parametrize("how", HOW)
def test_axe_finds_nothing(browser, base, how, sample):
    """As much of each page as has every kind of cell; the pages of a phone fit its width."""
    with opened(browser, **HOW[how]) as page:
        for address in sample((*KINDS, *CHOSEN), 1 if how == "light" else 3):
            open_(page, base, address)
            page.evaluate(SHORTER)
            assert violations(page) == [], address
            page.goto("about:blank")


def test_a_phone_scrolls_tables_and_not_the_page(browser, base):
    with opened(browser, **PHONE) as page:
        for address in (*KINDS, *CHOSEN):
            open_(page, base, address)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, address
            page.goto("about:blank")
        open_(page, base, A)
        page.locator(".matrix tbody tr").nth(1).locator("td").nth(1).tap()
        assert page.locator("#readout").inner_text().startswith("A[1][1]: lane 4, i 1")


def test_without_the_script_tables_and_coloured_pictures_remain(browser, base):
    with opened(browser, java_script_enabled=False) as page:
        page.goto(base + A)
        assert page.locator(".matrix tbody tr").nth(3).locator("td").nth(9).inner_text() == "12:5"
        assert page.locator("pre:visible").count() >= 5
        for address in ("compare.html", A):
            page.goto(base + address)
            assert page.locator(".matrix td").count() >= 256
            assert page.locator("noscript img, main img").count() >= 1, address
        page.goto(f"{base}m/{MMA}.html")
        assert page.locator("img").count() == 3
        page.goto(f"{base}diff.html")
        assert "sm_72 to sm_75" in page.locator("#found").inner_text()


def test_on_paper_what_is_chosen_is_legible_and_both_sides_are_whole(watched, base):
    open_(watched, base, f"m/{MMA}.html#d=3,5")
    watched.emulate_media(media="print")
    widths = "Array.from(document.querySelectorAll('td.on'), (td) => parseFloat(getComputedStyle(td).outlineWidth))"
    assert max(watched.evaluate(widths)) < 2  # a line is 6 points high
    assert "thick edge" not in watched.locator(".key").inner_text()  # registers have none on paper
    watched.emulate_media(media="screen")
    open_(watched, base, "compare.html")
    until(watched, "document.querySelectorAll('td.moved').length")
    watched.emulate_media(media="print")
    one, other = (watched.locator(".side").nth(n).bounding_box() for n in range(2))
    assert one["x"] == other["x"]
    assert one["y"] + one["height"] <= other["y"]
    assert watched.locator("#paste").is_hidden()


def test_print_shows_all_and_no_controls(watched, base):
    open_(watched, base, f"{WMMA}?arch=sm_70")
    until(watched, "document.querySelector('.matrix td[class^=c]')")
    watched.emulate_media(media="print")
    assert watched.locator("#search").is_hidden()
    assert watched.locator(".tabs > div:visible").count() >= 5
    # a gradient in each of thousands of cells took Chromium minutes
    drawn = "Array.from(document.querySelectorAll('.matrix tbody td, .lanes tbody td'), (td) => getComputedStyle(td))"
    assert watched.evaluate(f"{drawn}.every((style) => style.backgroundImage === 'none')")
    assert watched.evaluate(f"new Set({drawn}.map((style) => style.backgroundColor)).size") == 8
