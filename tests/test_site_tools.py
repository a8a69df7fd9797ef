"""Recipes, ways, wgmma and tensor memory in Chromium: pages open quietly, answer, and survive hostile addresses."""

import re

import pytest
from site_chromium import needed, open_, until

pytestmark = needed
UNKNOWN = "This page does not know part of its address and shows the default instead."


def test_the_way_of_an_element_that_is_chosen(watched, base):
    open_(watched, base, "path/sm_80-f16.html")
    steps = watched.locator("[data-way=a] li")
    still = steps.all_inner_texts()
    assert still[1] == "cp.async.16 by thread 65 (round 4), to byte 9242 of stage 1 (bank 6)"
    open_(watched, base, "path/sm_80-f16.html#row=0&col=0&k=0")
    assert watched.locator("[data-way=a] h2").inner_text() == "A(0, 0)"
    for name, value in (("row", "200"), ("col", "150"), ("k", "77")):
        watched.locator(f"[name={name}]").fill(value)
    assert steps.all_inner_texts() == still
    assert watched.url.endswith("#row=200&col=150&k=77")
    watched.locator("[name=k]").fill("many")
    assert watched.locator("#way-wrong").inner_text().startswith("Row, column and k are whole numbers")


def test_a_tile_of_wgmma_that_is_chosen(watched, base):
    open_(watched, base, "play/wgmma.html#operand=b&n=96&tile=96x64&type=f16&major=mn&swizzle=64")
    assert watched.locator("#descriptor").inner_text() == "0x8000002001000000"
    assert "box 32 x 64 (4096 bytes)" in watched.locator("#tile-said").inner_text()
    watched.locator("[name=swizzle]").first.select_option("128")
    assert watched.locator("#tile-wrong").inner_text().startswith("Not possible: 192 bytes of lines")
    watched.locator("[name=tile]").fill("128x64")
    watched.locator("[name=operand]").select_option("a")
    watched.locator("[name=major]").select_option("k")
    assert watched.locator("#descriptor").inner_text() == "0x4000004000010000"
    cells = watched.locator("#where tbody tr").nth(1).locator("td").all_inner_texts()
    assert cells == ["144", "128", "176", "160", "208", "192", "240", "224"]
    watched.locator("#where tbody tr").nth(1).locator("td").first.hover()
    assert watched.locator("#readout").inner_text() == "line 1, k 0 to 7: bytes 144 to 159, banks 4 to 7"


def test_an_access_that_is_not_measured_leads_on_with_the_same_tile(watched, base):
    address = "play/banks.html#tile=128x64&type=bf16&swizzle=128B&access=wgmma"
    open_(watched, base, address)
    said = watched.locator("#wrong")
    assert said.inner_text().startswith("Not possible: how wgmma meets in banks is not measured")
    assert watched.locator("#command").inner_text() == ""
    said.locator("a:text-is('stmatrix')").click()
    until(watched, "document.querySelector('#passes').textContent === '128'")
    assert watched.locator("[name=swizzle]").input_value() == "128B"
    open_(watched, base, address)
    said.locator("a").first.click()
    until(watched, "document.querySelector('#descriptor')?.textContent === '0x4000004000010000'")
    assert watched.locator("[name=tile]").input_value() == "128x64"


def test_a_descriptor_both_ways(watched, base):
    open_(watched, base, "play/wgmma.html#desc=0x8000002001000000")
    value = "document.querySelector('#fields [name={}]').value"
    assert [watched.evaluate(value.format(name)) for name in ("lbo", "sbo", "swizzle")] == ["4096", "512", "64"]
    watched.locator("[name=sbo]").fill("1024")
    assert watched.locator("#bits").input_value() == "0x8000004001000000"
    watched.locator("[name=sbo]").fill("1025")
    assert watched.locator("#fields-wrong").inner_text().startswith("Not possible: stride byte offset 1025")
    watched.locator("#bits").fill("0xffffffffffffffff")
    assert "field" in watched.locator("#fields-wrong").inner_text()


EVIL = "<img src=x onerror=document.title='evil'>"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (f"play/wgmma.html#tile={EVIL}&type=constructor", "#tile-wrong"),
        (f"play/wgmma.html#desc={EVIL}", "#tile-wrong"),
        ("play/wgmma.html#swizzle=__proto__&other=1", "#tile-wrong"),
        (f"path/sm_90-bf16.html#row={EVIL}", "#way-wrong"),
        ("path/sm_90-bf16.html#k=99999999999999999999", "#way-wrong"),
    ],
)
def test_a_hostile_address_shows_the_default_and_says_so(watched, base, address, said):
    open_(watched, base, address)
    assert watched.locator(said).inner_text() == UNKNOWN
    assert watched.locator("main img[src=x]").count() == 0
    assert watched.title().endswith("tcprobe")


def test_layouts_have_thumbnails(watched, base):
    open_(watched, base, "index.html")
    images = watched.locator(".layouts img")
    assert images.count() == watched.locator(".layouts a").count() > 100
    images.first.scroll_into_view_if_needed()
    until(watched, "document.querySelector('.layouts img').naturalWidth > 0")
    open_(watched, base, "a/sm_80.html")
    assert all(
        re.search(r"svg/[0-9a-f]{12}-thumb\.svg$", of.get_attribute("src"))
        for of in watched.locator(".facts img").all()
    )


def test_pictures_of_tensor_memory_stand_one_at_a_time(watched, base):
    open_(watched, base, "tensor-memory.html")
    assert watched.locator("svg.tmem:visible").count() == 1
    watched.locator("[role=tab]", has_text="mxf4nvf4").first.click()
    assert "scale_b: columns" in watched.locator("[role=tabpanel]:visible").inner_text()
