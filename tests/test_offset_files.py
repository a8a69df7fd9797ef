"""Files of offsets that are matrices or CSVs: every way to write them, what is no table, and the maps they make."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from printouts import DATA, fitted, swizzle

from tcprobe.errors import DataError
from tcprobe.layout.address import AddressMap, runs
from tcprobe.layout.address_files import read_address_map
from tcprobe.layout.swizzle import Swizzle


def test_worked_example():
    """Its first table only counts the elements; it takes --table to fit that one."""
    path = DATA / "swizzle_example.txt"
    done = swizzle("fit", path, "--json")
    found = json.loads(done.stdout)
    assert (found["swizzle"], found["others"]) == ([2, 0, 3], [[3, 0, 3]])
    assert "2 tables, from lines 2, 8" in done.stderr
    assert fitted(path, "--table", 1)["kind"] == "affine"
    assert fitted(path, "--table", 2)["swizzle"] == [2, 0, 3]
    assert "--table 3" in swizzle("fit", path, "--table", 3, code=2).stderr


@pytest.mark.parametrize(
    "text",
    [
        "0, 1, 2\n4, 5, 6\n",
        "0 1 2\n4 5 6",
        "0|1|2\n4|5|6\n",
        "[[0 1 2]\n [4 5 6]]",
        "{0, 1, 2},\n{4, 5, 6},\n",
        "# offsets\nin elements:\n\n0\t1\t2 // first line\n\n4\t5\t6\n",
        "row,col,offset\n0,0,0\n1,0,4\n0,1,1\n1,1,5\n0,2,2\n1,2,6\n",
        "offset, col, row\n0,0,0\n4,0,1\n1,1,0\n5,1,1\n2,2,0\n6,2,1\n",
        "0,0,0\n1,0,4\n0,1,1\n1,1,5\n0,2,2\n1,2,6\n",
        "\ufeffrow,col,offset\n0,0,0\n1,0,4\n0,1,1\n1,1,5\n0,2,2\n1,2,6\n",
    ],
)
def test_ways_to_write_offsets(text, write):
    address = read_address_map(write(text)).address
    assert address.grid.tolist() == [[0, 1, 2], [4, 5, 6]]
    assert fitted(write(text)) == {
        "kind": "affine",
        "swizzle": None,
        "unit": "elements",
        "shape": [2, 3],
        "stride": [4, 1],
        "base": 0,
        "cells": 6,
        "proven": True,
        "others": [],
        "names": ["RowMajor"],
    }


def test_offsets_may_repeat_and_a_box_may_begin_anywhere(write):
    text = "row,col,offset\n" + "\n".join(f"{a},{b},{b % 2 * 8}" for a in range(5, 9) for b in range(6, 14))
    found = fitted(write(text))
    assert (found["kind"], found["cells"]) == ("affine", 32)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no numbers"),
        ("nothing here", "no numbers"),
        ("0 1 2\n4 x 6", "line 2: 'x'"),
        ("0 1 2\nx 5 6", "line 2: 'x'"),
        ("0 1 2\n4 -5 6", "line 2: '-5'"),
        ("0 1 2\n4 5.5 6", "line 2: '5.5'"),
        ("[[0, 1], [2, 3]]", "line 1: several rows"),
        ("{{0, 1},{2, 3}}", "line 1: several rows"),
        ("0 1 2\n4 5", r"\(1, 2\) is missing"),
        ("0,,2\n4,5,6", r"\(0, 1\) is missing"),
        ("row,col,offset\n0,0,0\n0,1,1\n1,0,8", r"\(1, 1\) is missing"),
        ("row,col,offset\n0,0,0\n0,0,0", r"\(0, 0\) appears twice"),
        ("row,col,offset\n0,0,0\n0,1", "line 3: 2 values"),
        ("row,col,offset\n0,0,0,0", "line 2: 4 values"),
        ("row,col,offset\n0,0,-1", "line 2: '-1'"),
        ("row,col,offset\n0,0,0\n0,1000000000,1", "not below|more than"),
        ("row,col,offset\n0,0,0\n9999,9999,1", "more than"),
        ("0 " + "9" * 5000, "line 1: '999"),
        ("03_visualize_layout RowMajor", "nothing that it printed"),
    ],
)
def test_files_that_are_no_tables(text, words, write):
    error = swizzle("fit", write(text), code=4).stderr
    assert re.search(words, error), error


def test_several_tables_need_a_choice(write):
    path = write("plain:\n0 1\n2 3\n\nother:\n0 1\n3 2\n\nthird:\n0 2\n1 3\n")
    assert "3 tables, from lines 2, 6, 10; --table N" in swizzle("fit", path, code=2).stderr
    assert fitted(path, "--table", 3)["stride"] == [1, 2]


def test_what_cannot_be_read(tmp_path):
    assert "read" in swizzle("fit", tmp_path / "absent", code=4).stderr
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00\x01")
    assert "not UTF-8" in swizzle("fit", tmp_path / "bytes", code=4).stderr


def test_no_layout_is_an_answer(write):
    rows = [" ".join(str(a * b) for b in range(8)) for a in range(8)]
    assert "no layout" in swizzle("fit", write("\n".join(rows)), code=1).stderr


@given(st.sets(st.tuples(st.integers(0, 12), st.integers(0, 6)), min_size=1))
def test_runs_name_every_element_once(elements):
    named = []
    for text in runs(elements):
        first, second = (list(map(int, part.split(".."))) for part in text.strip("()").split(", "))
        named += [(a, b) for b in range(second[0], second[-1] + 1) for a in range(first[0], first[-1] + 1)]
    assert sorted(named) == sorted(elements)


def test_a_map_checks_itself():
    with pytest.raises(DataError, match="no element"):
        AddressMap.of([], [], [])
    with pytest.raises(DataError, match="twice"):
        AddressMap.of([1, 1], [2, 2], [0, 1])
    with pytest.raises(DataError, match="outside"):
        AddressMap.of([1, 2], [2, 2], [0, 1], ((0, 0), (1, 3)))
    assert AddressMap.of([0, 2], [0, 1], [0, 1]).missing == [(1, 0), (2, 0), (0, 1), (1, 1)]
    assert Swizzle(0, 0, 0)(5) == 5
