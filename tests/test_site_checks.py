"""The site's page of what `check` finds: with no survey, with one, and with texts that are no words."""

import json
import re
from types import SimpleNamespace

import pytest
from site_pages import pages

from tcprobe.check.rule import rules
from tcprobe.errors import DataError
from tcprobe.pages.site.check_pages import CHECK_PAGE, check_pages
from tcprobe.pages.site.markup import render
from tcprobe.store.choose import alone
from tcprobe.store.results import Results, published
from tcprobe.store.surveys import CHECKS, MISTAKES, load_checks, load_mistakes

FOUND = {"kernel": "k<b>", "rule": "async-proxy", "address": 16, "text": "t", "numbers": {}, "argued": "Right & read."}
CONFLICT = FOUND | {"rule": "bank-conflicts", "numbers": {"wavefronts": 8, "least": 1}}
PACKAGE = {
    **{"package": "p<i>", "version": "1.0", "arch": "sm_90", "files": 1, "files_of": 3, "kernels": 2},
    **{"instructions": 9, "shared_accesses": 8, "undecided": 2, "kernels_with": {}, "seconds": 1.5, "unread": 0},
    **{"findings": {"async-proxy error": 2, "spills warning": 3}, "errors": [FOUND, FOUND], "conflicts": [CONFLICT]},
}
KIND = {"rule": "spills", "tried": 5, "found": 4, "undecided": 1, "harmless": {"it is not read": 2}, "missed": ["x"]}


def saved(folder, packages, kinds=None):
    (folder / CHECKS).write_text(json.dumps(packages))
    if kinds:
        (folder / MISTAKES).write_text(json.dumps({"kernels": 1, "most": 4, "kinds": kinds}))
    return list(check_pages(SimpleNamespace(layers=alone(Results(folder)))))


def tables(html):
    """By anchor or label the texts of the rows of each table, heads left out."""
    found = re.findall(r'aria-label="([^"]*)"><table.*?<tbody>(.*?)</tbody>', html, re.DOTALL)
    return {name: [re.findall(r"<td>(.*?)</td>", row) for row in body.split("<tr>")[1:]] for name, body in found}


def test_without_a_survey_there_is_no_page(tmp_path):
    assert list(check_pages(SimpleNamespace(layers=alone(Results(tmp_path))))) == []
    assert saved(tmp_path, []) == []


def test_a_package_is_a_row_and_its_texts_are_text(tmp_path):
    (view,) = saved(tmp_path, [PACKAGE, PACKAGE | {"arch": "sm_100"}], {"a move made one to the stack": KIND})
    assert view.page == CHECK_PAGE
    html = render(view)
    found = tables(html)
    first = ["p&lt;i> 1.0, 1 of 3 files", "sm_90", "2", "2", "spills 3", "2 of 8 (25.0%)", "1.5"]
    assert found["Packages"] == [first, [first[0], "sm_100", *first[2:]]]
    where = "async-proxy: p&lt;i> 1.0, sm_90: 2; async-proxy: p&lt;i> 1.0, sm_100: 2"
    assert found["Errors, read by hand"] == [[where, "Right & read."]]
    assert ["p&lt;i> 1.0", "sm_90", "k&lt;b>", "0x10", "8", "1"] in found["The bank conflicts that cost most"]
    assert found["Mistakes put into right kernels"] == [["a move made one to the stack", "spills", "5", "4", "1", "2"]]
    assert [row[0] for row in found["Rules"]] == list(rules())
    assert "<b>" not in html
    assert "<i>" not in html


def test_what_a_folder_lacks_is_left_out(tmp_path):
    (view,) = saved(tmp_path, [PACKAGE | {"errors": [], "conflicts": []}])
    assert [*tables(render(view))] == ["Packages", "Rules"]


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"kernels": 1}'])
def test_damaged_files_are_named(tmp_path, text):
    (tmp_path / CHECKS).write_text(text)
    (tmp_path / MISTAKES).write_text(text)
    with pytest.raises(DataError, match="no survey of checks"):
        load_checks(tmp_path)
    with pytest.raises(DataError, match="no count of mistakes found"):
        load_mistakes(tmp_path)


def test_the_site_has_what_is_published():
    rows = tables(pages()[CHECK_PAGE])
    assert len(rows["Packages"]) == len(load_checks(published().root))
    assert len(rows["Mistakes put into right kernels"]) == len(load_mistakes(published().root).kinds)
    assert f'href="{CHECK_PAGE}"' in pages()["index.html"]
