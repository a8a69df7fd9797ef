"""Another arch changes everything that depends on it; what is chosen, searched and tried out in Chromium."""

import pytest
from site_chromium import needed, open_
from site_pages import distinct, facts

from tcprobe.pages.site import addresses, words

pytestmark = needed
WMMA = "f/wmma.m16n16k16.a.row.f16.html"
MMA = "m/mma.m16n8k16.row.col.f32.f16.f16.f32.html"
SPARSE = "m/mma.sp.m16n8k32.row.col.f32.f16.f16.f32.html"
GROUP = "wgmma.mma_async.m64nNk16.f32.f16.f16"


@pytest.fixture
def base(served):
    """The site over HTTP."""
    return served


SHOWN = """() => {
  const text = (at) => Array.from(document.querySelectorAll(at), (one) => one.textContent);
  const visible = (at) => Array.from(document.querySelectorAll(at)).filter((one) => !one.closest("[hidden]"));
  const main = document.querySelector("main").cloneNode(true);
  const apart = ".strip, #differs, script, [hidden], [data-layout], #absent + table";
  main.querySelectorAll(apart).forEach((one) => one.remove());
  const cells = (row) => Array.from(row.cells, (td) => td.textContent);
  const table = (at) => Array.from(document.querySelectorAll(at), cells);
  return {
    evidence: text("#evidence")[0], formula: text("#formula")[0], again: text("#again")[0],
    emulated: text("#emulated")[0], made: table("#made tr"), verdicts: table("#verdicts tbody tr"),
    layout: visible("span[data-layout]").map((one) => one.dataset.layout), numbering: text("#numbering")[0],
    arch: document.querySelector("#of-arch").getAttribute("href"), current: text("[aria-current]"),
    links: Array.from(document.querySelectorAll("main a"), (one) => one.getAttribute("href"))
      .filter((one) => /(^|\\/)m\\//.test(one)),
    named: Array.from(new Set(main.textContent.match(/sm_\\d+/g) || [])),
  };
}"""


def test_everything_that_depends_on_the_arch_changes_with_it(watched, base, sample):
    """Of pages of fragments, each arch chosen in turn: what the library says of it, and no word on another."""
    for fact in sample([fact for fact in distinct() if len(fact.cells) > 1], 45):
        open_(watched, base, addresses.fact(fact.id))
        for arch, cell in reversed(fact.cells.items()):
            watched.locator(f".strip [data-arch={arch}]").click()
            shown = watched.evaluate(SHOWN)
            verdicts = [
                [v.reference, v.verdict, v.detail + (f"Erratum: {v.erratum}" if v.erratum else "")]
                for v in fact.verdicts(arch)
            ]
            expected = {
                "evidence": f"{arch}: {words.evidence(cell)}.",
                "formula": words.formula(cell.table),
                "again": words.command(cell),
                "made": [list(pair) for pair in words.provenance(cell)],
                "verdicts": verdicts,
                "layout": [cell.table.id],
                "current": [arch],
                "arch": f"../a/{arch}.html",
                "numbering": words.numbering(cell),
            }
            assert {key: shown[key] for key in expected} == expected, (fact.id, arch)
            said = str([expected[key] for key in ("evidence", "made", "numbering", "verdicts")])
            assert [name for name in shown["named"] if name != arch and name not in said] == [], (fact.id, arch)
            carried = arch != fact.main.arch
            assert all((f"arch={arch}" in link) == carried for link in shown["links"]), (fact.id, arch)
            emulated = facts().emulation(fact.fragment, arch)
            assert emulated in shown["emulated"]
            assert bool(emulated) == bool(shown["emulated"])


def test_an_arch_is_a_step_in_history(watched, base):
    open_(watched, base, WMMA)
    watched.locator("[data-arch=sm_70]").click()
    watched.locator("[data-arch=sm_75]").click()
    watched.go_back()
    watched.locator("#evidence", has_text="sm_70:").wait_for()
    watched.go_back()
    watched.locator("#evidence", has_text="sm_90:").wait_for()
    watched.go_forward()
    watched.locator("#again", has_text="--arch sm_70").wait_for()


def test_instruction_pages_have_the_switch(watched, base, sample):
    wmma = [name for name in facts().instructions if name.startswith("wmma")]
    for name in [*sample(wmma, 12), "mma.m16n8k16.row.col.f32.f16.f16.f32"]:
        row = facts().instructions[name]
        open_(watched, base, addresses.instruction(name))
        for arch in watched.eval_on_selector_all("[data-arch]", "(all) => all.map((one) => one.dataset.arch)"):
            watched.locator(f"[data-arch={arch}]").click()
            for fragment in row.fragments:
                fact = facts().by_fragment[fragment.id]
                line = watched.locator(f"[data-operand={fragment.operand}]")
                assert line.locator(".formula").inner_text().split() == words.formula(fact.cells[arch].table).split()
                assert line.locator(".evidence").inner_text() == words.SHORT[fact.kind(arch)]
            assert watched.locator("th [data-of=arch]").inner_text() == arch


def test_an_arch_that_has_no_table_is_said(watched, base):
    for address in (f"{WMMA}?arch=sm_99", "f/mma.m16n8k16.row.col.f32.f16.f16.f32.a.html?arch=%3Cb%3E"):
        open_(watched, base, address)
        assert "has no table here: shown is sm_90." in watched.locator("#differs").inner_text()
    open_(watched, base, f"{MMA}?arch=sm_70")
    assert watched.locator("#unknown").inner_text() == "sm_70 has no table here: shown is sm_90."


@pytest.mark.parametrize("hash_", ["r=99&c=0", "r=-1&c=3", "r=x", "lane=77&i=0", "r=1&c=1&block=7", "r=<b>&c=1"])
def test_a_hash_that_names_nothing_is_said(watched, base, hash_):
    open_(watched, base, f"{WMMA}#{hash_}")
    assert watched.locator("#readout").inner_text().startswith("The address names no element")
    assert watched.locator("td.on").count() == 0


EDGES = """() => {
  const left = (th) => Math.round(th.getBoundingClientRect().left);
  const heads = (of) => Array.from(document.querySelectorAll(`.in-${of} thead th`), (th) => [th.textContent, left(th)]);
  const top = (of) => document.querySelector(`.in-${of} tbody tr`).getBoundingClientRect().top;
  const boxes = document.querySelectorAll(".composite table").length;
  return { b: heads("b"), d: heads("d"), a: top("a"), dTop: top("d"), boxes };
}"""


@pytest.mark.parametrize("address", [MMA, SPARSE, "m/wmma.mma.row.row.m16n16k16.f32.f32.html", f"m/{GROUP}.html?n=64"])
def test_b_stands_above_d_and_a_beside_it(watched, base, address):
    open_(watched, base, address)
    found = watched.evaluate(EDGES)
    assert found["boxes"] >= 3
    left = dict(found["d"])
    assert all(abs(left[text] - at) <= 1 for text, at in found["b"])
    assert abs(found["a"] - found["dTop"]) <= 1


@pytest.mark.parametrize(
    "address",
    [f"f/{GROUP}.d.html?n=256", f"m/{GROUP}.html?n=256", "f/wgmma.mma_async.sp.m64nNk32.f32.f16.f16.d.html?n=256", MMA],
)
def test_a_page_has_at_most_six_thousand_nodes(watched, base, address):
    open_(watched, base, address)
    assert watched.evaluate("document.querySelectorAll('*').length") <= 6000


def test_n_is_chosen_on_an_instruction_s_page(watched, base):
    open_(watched, base, f"m/{GROUP}.html?n=128#d=3,100")
    assert watched.locator("#readout").inner_text().startswith("D[3][100]: thread 14, i 48")
    assert watched.locator(".in-b caption").inner_text() == "B 16 x 128, in shared memory"
    assert watched.locator(".in-d td.on").count() == 1


def test_a_deep_link_s_cell_is_in_the_middle(watched, base):
    open_(watched, base, f"f/{GROUP}.d.html?n=256#r=40&c=130")
    at = watched.locator(".matrix td.on").bounding_box()
    size = watched.viewport_size
    assert 0.15 * size["width"] < at["x"] < 0.85 * size["width"]
    assert 0 < at["y"] < size["height"]
    assert watched.locator(".lanes td.on").count() == 1


def test_metadata_says_what_meets(watched, base):
    """As `tcprobe trace` lists the candidates; the metadata picks one of each."""
    open_(watched, base, f"{SPARSE}#d=3,5")
    meets = watched.locator("#meets li").all_inner_texts()
    assert len(meets) == 16
    assert (
        meets[0] == "A[3][0] (lane 12, i 0) · B[0][5] (lane 20, i 0) · D[3][5] (lane 14, i 1) · E[3][0] (lane 12, i 0)"
    )
    assert meets[1].startswith("A[3][1] (lane 12, i 1) · B[1][5] (lane 20, i 1)")
    watched.locator("#choices select").first.select_option("0xe")
    meets = watched.locator("#meets li").all_inner_texts()
    assert meets[0].startswith("A[3][0] (lane 12, i 0) · B[2][5] (lane 21, i 0)")
    assert meets[3].startswith("A[3][3] (lane 13, i 1) · B[7][5] (lane 23, i 1)")
    assert watched.locator(".in-e td.on").count() == 16


def test_scales_are_drawn_and_named(watched, base):
    name = next(
        name for name in facts().instructions if ".block_scale.scale_vec::2X" in name and name.startswith("mma.m")
    )
    open_(watched, base, addresses.instruction(name) + "#d=3,5")
    said = watched.locator("#choices").inner_text()
    assert "byte-id 0" in said
    assert watched.locator(".in-scale_a td.on").count() == watched.locator(".in-scale_b td.on").count() == 2


def test_the_playground_s_address(watched, base):
    open_(watched, base, "play/banks.html#tile=64x64&type=f16&line=128&swizzle=3,4,3&access=ldmatrix")
    assert watched.locator("#passes").inner_text() == "64"
    watched.locator("[name=swizzle]").fill("none")
    watched.locator("[name=swizzle]").press("Enter")
    assert watched.locator("#passes").inner_text() == "512"
    watched.locator("#find-best").click()
    assert "Swizzle<3,4,3>, 64 passes" in watched.locator("#best").inner_text()
    assert watched.locator("#passes").inner_text() == "64"
    assert "swizzle=3,4,3" in watched.url
    assert "--shared sw:3,4,3 --with ldmatrix.x4" in watched.locator("#command").inner_text()


@pytest.mark.parametrize("hash_", ["tile=<img src=x>", "type=evil", "evil=1", "access=" + "x" * 99])
def test_a_hostile_state_shows_the_default_or_says_why(watched, base, hash_):
    open_(watched, base, f"play/banks.html#{hash_}")
    assert watched.locator("#wrong").inner_text() != ""
    assert watched.locator("main img").count() == 0


def asked(page, text):
    page.keyboard.press("/")
    page.locator("#search").fill(text)
    page.locator("#results a").first.wait_for()
    return page.locator("#results a").first


def test_the_search_answers(watched, base):
    open_(watched, base, "index.html")
    first = asked(watched, "m16n8k16 bf16 d 3,5")
    assert first.inner_text().startswith("lane 14, i 1")
    first.click()
    watched.locator("#readout", has_text="D[3][5]: lane 14, i 1").wait_for()
    assert (
        asked(watched, "0x4000004000010000")
        .inner_text()
        .startswith("start 0, LBO 16, SBO 1024, base offset 0, swizzle 128B")
    )


def test_the_first_page_draws_what_is_typed(watched, base):
    open_(watched, base, "index.html")
    assert watched.locator("#live tbody tr").count() == 16
    watched.locator("#live tbody tr").nth(3).locator("td").nth(9).hover()
    assert watched.locator("#readout").inner_text() == "A[3][9]: lane 12, i 5"
    watched.locator("#ask").fill("wmma m16n16k16 a row f16")
    watched.locator("#ask").press("Enter")
    watched.locator("#live-page", has_text="wmma.m16n16k16.a.row.f16").wait_for()
    watched.locator("#live-choose select").select_option("sm_70")
    watched.locator("#live-arch", has_text="on sm_70").wait_for()
    assert watched.locator("#live-formula").inner_text() == words.formula(
        facts().facts["wmma.m16n16k16.a.row.f16"].cells["sm_70"].table
    )
    assert watched.locator("#live tbody tr").nth(3).locator("td").nth(9).inner_text() == "3:9 11:9"
    watched.locator("#ask").fill("<b>nothing</b>")
    watched.locator("#ask").press("Enter")
    watched.locator("#live-wrong", has_text="Nothing in registers").wait_for()
