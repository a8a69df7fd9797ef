"""Findings of orders: what can be true, and the pages with none, one and many of them."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import msgspec
import pytest
from click.testing import CliRunner
from found_orders import BODY, FORM, finding, many, save

from tcprobe.cli import main
from tcprobe.errors import DataError
from tcprobe.pages import orders as pages
from tcprobe.pages.overview import render
from tcprobe.pages.site.markup import render as rendered
from tcprobe.pages.site.order_pages import ORDER_PAGE, order_pages
from tcprobe.pages.tables import COLUMNS, WIDEST
from tcprobe.store import findings, kinds
from tcprobe.store.choose import alone
from tcprobe.store.kinds import order as kind
from tcprobe.store.results import Results


def site(folder):
    return list(order_pages(SimpleNamespace(layers=alone(Results(folder)), archs=["sm_80", "sm_90"])))


def test_a_finding_is_read_as_it_was_written(tmp_path):
    save(tmp_path, BODY)
    (found,) = findings.every(Results(tmp_path), "order", "sm_90")
    assert found == finding(BODY)
    assert found.subject == "cupy.matmul.cublas-13.1.0.3.132.bf16.bf16.f32.n4096.k4096.row.row.16"
    assert (
        kind.words([found])
        == "live on NVIDIA H200, driver 580, CUDA 13.0: 0 of 24576 elements do not follow their orders"
    )
    assert kind.doubt(found.body) is None
    assert kind.words([]) == "no order was found"


def changed(**values):
    return msgspec.structs.replace(BODY, **values)


def range_with(number, **values):
    made = list(BODY.ranges)
    made[number] = msgspec.structs.replace(made[number], **values)
    return changed(ranges=made)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (changed(k=2048), "another K"),
        (changed(types=("f16", "f16", "f32")), "other types"),
        (changed(orders=BODY.orders[:2]), "each order stands once"),
        (changed(orders=[*BODY.orders[:2], BODY.orders[0]]), "each order stands once"),
        (changed(orders=[{**one, "seconds": 1} for one in BODY.orders]), "the keys"),
        (changed(orders=[{**BODY.orders[0], "sum": {"fma": "f32", "k": [[0, 9]]}}, *BODY.orders[1:]]), "never summed"),
        (changed(orders=[{**one, "arch": "sm_80"} for one in BODY.orders]), "sm_80 has no wgmma"),
        (changed(ranges=[]), "each order stands once"),
        (range_with(1, first=16), "ranges of M ascend"),
        (range_with(0, last=0), "ranges of M ascend"),
        (range_with(0, called=17), "no M is called twice"),
        (range_with(0, elements=0), "none were"),
        (range_with(0, different=5000), "more elements differ"),
        (range_with(0, changed=3), "every range but the first"),
        (range_with(1, changed=None), "every range but the first"),
        (range_with(1, changed=4097), "more elements differ"),
    ],
)
def test_what_cannot_be_true_is_refused(body, words, tmp_path):
    with pytest.raises(DataError, match=words):
        kinds.check(finding(body))


def test_a_subject_is_that_of_its_body():
    with pytest.raises(DataError, match="is not what its body is found of"):
        kinds.check(replace(finding(BODY), subject="cupy.matmul"))
    deep = {"fma": "f32", "k": [[0, 1]]}
    for k in range(1, 200):
        deep = {"fma": "f32", "k": [[k, k + 1]], "c": deep}
    with pytest.raises(DataError, match="nested more than 100 deep"):
        kinds.check(finding(changed(k=200, orders=[{**BODY.orders[0], "k": 200, "sum": deep}], ranges=BODY.ranges[:1])))


def test_devices_disagree_where_orders_do():
    other = changed(orders=[BODY.orders[1], BODY.orders[0], BODY.orders[2]])
    assert kinds.differences(finding(BODY), finding(other))
    written = json.loads(json.dumps(BODY.orders).replace("n256k16", "n128k16"))
    assert kinds.differences(finding(BODY), finding(changed(orders=written)))
    counted = range_with(0, elements=8000, called=3, kernel="gemm")
    assert kinds.differences(finding(BODY), finding(counted)) == []
    assert kind.doubt(range_with(0, different=7)) == "7 of 24576 elements do not follow its orders"


def test_a_run_cannot_make_them(tmp_path):
    done = CliRunner().invoke(main, ["run", "--family", "order", "--results", str(tmp_path)])
    assert done.exit_code == 2
    assert "findings of kind order follow from calls of programs" in done.stderr


def test_without_a_finding_there_is_no_page(tmp_path):
    (tmp_path / "sm_90" / "live").mkdir(parents=True)
    assert not pages.has_orders(Results(tmp_path))
    assert site(tmp_path) == []


def test_one_finding_is_drawn(tmp_path):
    save(tmp_path, BODY)
    whole = render(Results(tmp_path))
    text = whole[tmp_path / "orders.md"]
    assert "orders.md" in whole[tmp_path / "README.md"]
    assert "N 4096, K 4096  AAAAAAAAAAAAAAAAABBBBBBBBBBBBBBBBBBBAAAAACCCCCCCC" in text
    assert "             M  1       4       16      64      256     1024    4096" in text
    assert "| 4096 | 4096 | 17 to 511 | B | 0 of 8192 | 0 | 4000 of 4096 |" in text
    assert re.findall(r"- N 4096, K 4096, (.): (.*)", text) == [
        ("A", f"2 sums added in f32, from left to right: 2 x 128 {FORM['bf16']}"),
        ("B", f"256 {FORM['bf16']}"),
        ("C", f"8 sums added in f32, from left to right: 8 x 32 {FORM['bf16']}"),
    ]
    listed, view = site(tmp_path)
    assert listed.page == ORDER_PAGE
    assert f'href="{view.page}"' in rendered(listed)
    html = rendered(view)
    assert re.findall(r"<title>(order [^<]*)</title>", html) == [
        "order A: M 1 to 16, 512 to 1024",
        "order B: M 17 to 511",
        "order C: M 1025 to 4096",
    ]
    bars = sorted(tuple(map(float, pair)) for pair in re.findall(r"M([0-9.]+) [0-9]+h([0-9.]+)v", html))
    assert bars[0][0] == 130
    assert all(abs(x + width - after) < 0.2 for (x, width), (after, _) in pairwise(bars))
    assert bars[-1][0] + bars[-1][1] <= 691


def test_what_was_not_called_is_a_point(tmp_path):
    save(
        tmp_path,
        msgspec.structs.replace(BODY, ranges=[BODY.ranges[0], *BODY.ranges[2:]], orders=BODY.orders[::2]),
        fix=True,
    )
    text = "\n".join(pages.orders_page(Results(tmp_path)))
    assert "AAAAAAAAAAAAAAAAA..................." in text


def narrow(text):
    """Whether all tables are as narrow as those of results/ must be."""
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return max(map(len, cells)) <= COLUMNS and max(len(cell) for row in cells for cell in row) <= WIDEST


def test_hundreds_of_findings(tmp_path):
    bodies = many(200)
    for body in bodies:
        save(tmp_path, body)
    text = "\n".join(pages.orders_page(Results(tmp_path)))
    assert narrow(text)
    assert text.count("\n### ") == len({pages.title(body) for body in bodies})
    assert sum(line.startswith("| ") and line[2].isdigit() for line in text.splitlines()) == sum(
        len(b.ranges) for b in bodies
    )
    listed, *views = site(tmp_path)
    assert len(views) == len({pages.title(body) for body in bodies}) == rendered(listed).count('<li><a href="o/')
    whole = "".join(map(rendered, views))
    assert whole.count("<figure") == len(views)
    assert len(re.findall(r"M[0-9.]+ [0-9]+h", whole)) == sum(len(body.ranges) for body in bodies)
