"""Every Markdown table of the README, docs/ and results/ can be read at the width that a repository's page has."""

import re
from pathlib import Path

import pytest

from tcprobe.pages.tables import COLUMNS, WIDEST, fitting, heading_anchor, spans

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "results").rglob("*.md")]


def tables(text):
    """Lines of tables outside of fenced blocks, each as the texts of its cells as they are shown."""
    for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines():
        if line.startswith("|"):
            shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line).replace("\\|", "\x00").replace("`", "")
            yield [cell.strip() for cell in shown.strip().strip("|").split("|")]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_tables_are_narrow(path):
    wide = [cell for cells in tables(path.read_text("utf-8")) for cell in cells if len(cell) > WIDEST]
    assert wide == []
    assert max(map(len, tables(path.read_text("utf-8"))), default=0) <= COLUMNS


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_to_places_lead_somewhere(path):
    """An anchor is a heading's, of the same page or of another."""
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text("utf-8")):
        there = path.parent / target if target else path
        heads = re.findall(r"^#+ (.*)$", there.read_text("utf-8"), re.MULTILINE)
        assert anchor in {heading_anchor(head.replace("`", "")) for head in heads}, (path.name, target, anchor)


def test_every_page_of_results_is_linked():
    """From the README, docs/ or the overview: nobody reads what nothing leads to."""
    linked = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+\.md)", page.read_text("utf-8"))
    }
    assert {page.resolve() for page in (ROOT / "results").rglob("*.md")} <= linked


def test_archs_that_follow_each_other_are_named_by_their_ends():
    assert spans(["sm_70", "sm_80", "sm_86", "sm_87", "sm_120", "sm_121"]) == "sm_70, sm_80 to sm_87, sm_120, sm_121"
    assert spans([]) == ""


def test_names_that_do_not_fit_are_counted():
    assert fitting(["one", "two"], 8) == "one, two"
    assert fitting(["one", "two", "three"], 15) == "one, two, three"
    assert fitting(["one", "two", "three"], 14) == "one and 2 more"
    assert fitting(["one", "two", "three"], 10) == "one +2"
