"""The page that compares: its script gives the very answers of `tcprobe compare FILE.csv`, case by case."""

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from test_diagnose import CASES, changed, lane_bits, text_of

from tcprobe.ask import diagnose
from tcprobe.ask.compare import against, conventional
from tcprobe.errors import DataError, UsageError
from tcprobe.isa.arch import arch
from tcprobe.isa.names import select
from tcprobe.isa.operand import WHOLE
from tcprobe.layout.csv import read_csv, rules
from tcprobe.layout.table import slot_table
from tcprobe.pages.site.build import asset
from tcprobe.store.cell import load

NODE = shutil.which("node") or shutil.which("nodejs")
pytestmark = pytest.mark.skipif(not NODE, reason="no Node.js to run the script in; a browser test runs it too")
D, A = load("wmma.m16n16k16.d.f32", "sm_90"), load("mma.m16n8k16.row.col.f32.f16.f16.f32.a", "sm_90")
RUN = """
const { readFileSync } = require("fs");
require("vm").runInThisContext(readFileSync(process.argv[1], "utf8"));
const { csv, rules, cases } = JSON.parse(readFileSync(0, "utf8"));
const answered = ([text, held, measured, elsewhere]) => {
  try {
    return { answer: tcprobe.against(tcprobe.readCsv(text, csv), held, measured, rules, elsewhere) };
  } catch (error) {
    return { error: error.message };
  }
};
console.log(JSON.stringify(cases.map(answered)));
"""


def plain(table):
    cells = [None if cell is None else list(cell) for cell in table.cells]
    return {"threads": table.threads, "elements": table.elements, "outputs": table.outputs, "cells": cells}


def said(tmp_path, cases):
    """What the script answers to (text, cell, elsewhere)."""
    script = tmp_path / "diagnose.js"
    script.write_text(asset("diagnose.js"))
    asked = [(text, held(cell.fragment), plain(cell.table), elsewhere) for text, cell, elsewhere in cases]
    given = {"csv": rules(), "rules": diagnose.to_json(), "cases": asked}
    done = subprocess.run(
        [NODE, "-e", RUN, str(script)], input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def held(fragment):
    return {
        "bits": fragment.slot_bits,
        "register": fragment.register_bits,
        "conventional": conventional(fragment),
    }


def expected(path: Path, text, cell, elsewhere):
    """What the command answers, in the script's names."""
    path.write_text(text)
    try:
        answer = against(read_csv(path), cell.fragment, cell.table)
    except DataError as error:
        if not elsewhere:
            words = str(error)
            return {"error": words.removeprefix(str(path)).removeprefix(": ").removeprefix(", ")}
        raise
    found = answer._asdict()
    found["notStated"] = found.pop("not_stated")
    return {"answer": found | {"elsewhere": elsewhere if answer.first else []}}


def agree(tmp_path, cases):
    for (text, cell, elsewhere), answer in zip(cases, said(tmp_path, cases), strict=True):
        assert answer == expected(tmp_path / "t.csv", text, cell, elsewhere), text[:60]


def shuffled_columns(table):
    columns = [list(column) for column in table.values.values()]
    random.Random(1).shuffle(columns[0])
    return slot_table(table.threads, table.elements, dict(zip(("row", "col"), map(tuple, columns), strict=True)))


@pytest.mark.full
def test_changes_of_every_kind(tmp_path):
    """Those that the command's tests make, what agrees, what nothing explains, another arch's table, holes."""
    stated = [(changed(D.table, **how), D) for how, _ in CASES]
    orders = [(0, 2, 1, 3), (1, 2, 3, 0)]
    stated += [(changed(A.table, slot=lambda lane, i, o=o: (lane, o[i // 2] * 2 + i % 2)), A) for o in orders]
    stated += [
        (changed(A.table, slot=lambda lane, i: (lane, i ^ 1)), A),
        (changed(A.table, slot=lambda lane, i: lane_bits(0, 1)(lane, i ^ 4)), A),
        (changed(A.table, cell=lambda row, col: (15 - row, col)), A),
        (changed(D.table, cell=lambda row, col: (15 - row, col)), D),
        (changed(D.table, slot=lambda lane, i: (lane, i) if lane != 3 else (lane, i % 4)), D),
        (D.table, D),
        (A.table, A),
        (A.table, D),
        (D.table, A),
        (shuffled_columns(D.table), D),
        (load("wmma.m16n16k16.d.f32", "sm_70").table, D),
    ]
    agree(tmp_path, [(text_of(table), cell, []) for table, cell in stated])
    volta = text_of(load("wmma.m16n16k16.d.f32", "sm_70").table)
    agree(tmp_path, [(volta, D, ["wmma.m16n16k16.d.f32 on sm_70"])])


def test_orders_at_random(tmp_path, sample):
    """Every layout of a warp on two archs, lanes and elements in any order; a few of a warpgroup."""
    pick, seen, cases = random.Random(11), set(), []
    for name in ("sm_70", "sm_90"):
        some = [f for f in select(device=arch(name)) if f.role in WHOLE and f.products == 1]
        for fragment in [*(f for f in some if f.threads == 32), *[f for f in some if f.threads != 32][::300]]:
            try:
                cell = load(fragment.id, name)
            except UsageError:  # nobody has said anything of it yet
                continue
            if cell.table.id in seen:
                continue
            seen.add(cell.table.id)
            elements, lanes = (pick.sample(range(n), n) for n in (cell.table.elements, cell.table.threads))
            cases.append((changed(cell.table, slot=lambda lane, i, e=elements: (lane, e[i])), cell))
            cases.append((changed(cell.table, slot=lambda lane, i, o=lanes: (o[lane], i)), cell))
    agree(tmp_path, [(text_of(table), cell, []) for table, cell in sample(cases, 19)])


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_texts_as_people_write_them(tmp_path, mark):
    by_register = [f"{lane},{i // 2},{i % 7},{lane}" for lane in range(32) for i in range(8)]
    texts = [
        text_of(A.table, head, mark)
        for head in ("lane,i,row,col", "# by hand\nthread,i,row,column", "tid,element,ROW,col")
    ]
    texts += ["\n".join(["Thread,Register,row,col", *by_register]).replace(",", mark)]
    texts += ["\r\n".join(text_of(A.table, mark=mark).splitlines()[1:]), "\ufeff" + text_of(A.table, mark=mark)]
    turned = [
        f"{c},{r},{i},{lane}"
        for lane, i, r, c in (map(int, line.split(",")) for line in text_of(A.table).splitlines()[1:])
    ]
    texts += ["\n".join(["col,row,i,lane", *turned]).replace(",", mark), text_of(A.table, '"lane",i,row,col', mark)]
    agree(tmp_path, [(text, A, []) for text in texts])


def test_what_is_no_table_is_refused_in_the_same_words(tmp_path):
    texts = [
        "",
        "\n \n",
        "# nothing\n",
        "lane,i,row,col\n",
        "lane,i,row\n0,0,0\n",
        "lane,i,row,col\n0,0,0\n",
        "lane,i,row,col\n0,0,0,x\n",
        "lane,i,row,col\n0,0,0, 1\n",
        "lane,i,row,col\n0,0,0,-1\n",
        "lane,i,row,col\n0,0,0,0\n\n0,0,1,0\n",
        "lane,i,row,col\n99999999,0,0,0\n",
        f"lane,i,row,col\n{'9' * 300},0,0,0\n",
        "lane,i,row,col\n4095,4095,0,0\n",
        "{}",
        "thread,register,row,col\n0,0,0,0\n0,0,0,1\n0,1,0,2\n",
        "lane;i;row;col\n0;0;0;\uff10\n",
        "lane,i,register,row,col\n0,0,0,0,0\n",
        "lane,i,row,col,product\n0,0,0,0,0\n",
        'lane,i,row,col\n"0,0,0,0\n',
        'lane,i,row,col\n"0"1,0,0,0\n',
        'lane,i,row,col\n"0\n1",0,0,0\n',
        "lane,i,row,__proto__\n0,0,0,0\n",
        "constructor,i,row,col\n0,0,0,0\n",
        "<img src=x onerror=evil()>\n",
        "\n" * 100_001,
    ]
    agree(tmp_path, [(text, D, []) for text in texts])
