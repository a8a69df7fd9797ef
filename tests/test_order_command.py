"""`tcprobe order --file` and `diff` of two orders: what other programs rely on, and matrices that nobody trusts."""

import json
import os

import command
import numpy as np
import order_oracle
import pytest
import random_orders

import tcprobe
from tcprobe.api.offered import offered
from tcprobe.errors import DataError
from tcprobe.system.npy import read_matrix, write_matrix

WGMMA = "wgmma.mma_async.m64n256k16.f32.bf16.bf16"
ORDER = {
    "arch": "sm_90",
    "types": {"a": "bf16", "b": "bf16", "d": "bf16"},
    "k": 40,
    "inputs": "exact",
    "library": "cuBLAS 13.1.0.3",
    "sum": {"add": [{"form": WGMMA, "k": [[0, 32]]}, {"fma": "f32", "k": [[32, 40, 2], [33, 40, 2]]}]},
}


def ask(*arguments, code=0):
    return command.tcprobe(*arguments, code=code)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """ORDER.json, A.npy and B.npy, in the folder of the process."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ORDER.json").write_text(json.dumps(ORDER))
    a, b = random_orders.operands(np.random.default_rng(5), "bf16", 40, 6, 4)
    np.save("A.npy", a)
    np.save("B.npy", np.asfortranarray(b))
    return tmp_path


FILES = ("order", "--file", "ORDER.json", "--a", "A.npy", "--b", "B.npy")


def test_d_is_written_and_compared(folder):
    a, b = np.load("A.npy"), np.load("B.npy")
    said = json.loads(ask(*FILES, "-o", "D.npy", "--json").stdout)
    assert said == {"order": ORDER, "elements": 24}
    d = np.load("D.npy", allow_pickle=False)
    wanted = [[order_oracle.element(ORDER, row, col) for col in b.T.tolist()] for row in a.tolist()]
    assert (d.dtype, d.tolist()) == (np.float32, wanted)
    assert json.loads(ask(*FILES, "--d", "D.npy", "--json").stdout) == {"order": ORDER, "elements": 24, "different": 0}
    d[4, 1] = np.nextafter(d[4, 1], np.float32(np.inf))
    d[5, 3] = np.nan
    np.save("D.npy", d)
    assert json.loads(ask(*FILES, "--d", "D.npy", "--json", code=1).stdout)["different"] == 2
    words = ask(*FILES, "--d", "D.npy", code=1).stdout
    assert "2 differ from D" in words
    assert "the first: row 4, column 1" in words
    assert json.loads(ask(*FILES, "--d", "D.npy", "--row", "0-3", "--json").stdout)["elements"] == 16
    part = ask(*FILES, "--d", "D.npy", "--row", "3-4", "--col", "1", "--json", code=1)
    assert json.loads(part.stdout)["different"] == 1
    assert "row 4, column 1" in ask(*FILES, "--d", "D.npy", "--row", "4", "--col", "1-2", code=1).stdout
    loaded = tcprobe.order.load("ORDER.json")
    for given in (loaded, ORDER, "ORDER.json", folder / "ORDER.json"):
        assert (tcprobe.order.multiply(given, a, b).astype(np.float32) == wanted).all()
    answer = offered("order")(file="ORDER.json", a="A.npy", b="B.npy")
    assert (answer.d.astype(np.float32) == wanted).all()
    assert str(answer).endswith("24 elements of D")


@pytest.mark.parametrize(("types", "form", "dtype"), [
    (("s8", "s8", "s32"), "mma.m16n8k32.row.col.s32.s8.s8.s32", np.int32),
    (("f64", "f64", "f64"), "mma.m8n8k4.row.col.f64.f64.f64.f64", np.float64),
])  # fmt: skip
def test_integers_and_doubles(folder, types, form, dtype):
    (folder / "ORDER.json").write_text(
        json.dumps({**ORDER, "types": dict(zip("abd", types, strict=True)), "sum": {"form": form, "k": [[0, 40]]}})
    )
    rng = np.random.default_rng(2)
    a, b = rng.integers(-128, 128, (3, 40)).astype(dtype), rng.integers(-128, 128, (40, 2)).astype(dtype)
    np.save("A.npy", a)
    np.save("B.npy", b)
    ask(*FILES, "-o", "D.npy")
    assert np.load("D.npy").dtype == dtype
    assert (np.load("D.npy") == a @ b).all()
    assert json.loads(ask(*FILES, "--d", "D.npy", "--json").stdout)["different"] == 0


def test_zeros_of_both_signs_differ_and_nan_does_not(folder):
    (folder / "ORDER.json").write_text(json.dumps({**ORDER, "sum": {"fma": "f32", "k": [[0, 40]]}}))
    np.save("A.npy", np.array([[0] * 40, [np.nan] * 40], np.float32))
    np.save("B.npy", np.ones((40, 1), np.float32))
    np.save("D.npy", np.array([[-0.0], [-np.nan]], np.float32))
    assert json.loads(ask(*FILES, "--d", "D.npy", "--json", code=1).stdout)["different"] == 1


def test_words_bound_and_picture(folder):
    done = ask("order", "--file", "ORDER.json", "--bound", "--svg", "order.svg")
    assert "2 sums added in f32, from left to right" in done.stdout
    assert "a product is rounded at most 10 times" in done.stdout  # 8 multiply-adds, an addition, to bf16
    assert (folder / "order.svg").read_text().startswith("<svg")
    said = json.loads(ask("order", "--file", "ORDER.json", "--bound", "--json").stdout)
    assert set(said) == {"order", "bound"}
    assert said["bound"]["roundings"] == 10
    assert 2**-8 < said["bound"]["bound"] < 2**-8 + 2**-16


def test_whose_arithmetic_it_is(folder):
    form = "mma.m16n8k16.row.col.f32.bf16.bf16.f32"
    for arch, words in (("sm_90", ""), ("sm_80", f"not measured on sm_80, as others publish it: {form}")):
        (folder / "ORDER.json").write_text(json.dumps({**ORDER, "arch": arch, "sum": {"form": form, "k": [[0, 40]]}}))
        assert words in ask("order", "--file", "ORDER.json").stdout
        assert ("not measured" in ask("order", "--file", "ORDER.json").stdout) == bool(words)
    form = "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"
    types = {"a": "e4m3", "b": "e4m3", "d": "f32"}
    (folder / "ORDER.json").write_text(
        json.dumps({**ORDER, "types": types, "arch": "sm_120", "sum": {"form": form, "k": [[0, 40]]}})
    )
    assert "not measured on sm_120" in ask("order", "--file", "ORDER.json").stdout
    (folder / "ORDER.json").write_text(
        json.dumps({**ORDER, "types": types, "arch": "sm_100", "sum": {"form": form, "k": [[0, 40]]}})
    )
    assert "is not known on sm_100" in ask("order", "--file", "ORDER.json").stdout
    assert f"{form} has no model on sm_100" in ask(*FILES, code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("order",), "give a CALL, or an order in --file"),
        (("order", "cupy.matmul", "--file", "ORDER.json"), "give a CALL"),
        (("order", "cupy.matmul", "--a", "A.npy"), "--a needs an order in --file"),
        (("order", "--file", "ORDER.json", "--shape", "1x2x3"), "--shape needs a CALL"),
        (("order", "--file", "ORDER.json", "--a", "A.npy"), "give both --a and --b"),
        (("order", "--file", "ORDER.json", "--d", "A.npy"), "--d needs --a and --b"),
        (("order", "--file", "ORDER.json", "--row", "3"), "--row needs --a and --b"),
        (("order", "--file", "ORDER.json", "-o", "D.npy"), "-o needs --a and --b"),
        ((*FILES, "--d", "A.npy"), "--d is 6x40 of float32; D is 6x4 of float32"),
        ((*FILES, "--row", "6"), "Error: rows to choose from are 0 to 5"),
        ((*FILES, "--col", "2-4"), "Error: columns to choose from are 0 to 3"),
        (("order", "--file", "ORDER.json", "--a", "B.npy", "--b", "A.npy"), "not matrices with 40 products"),
    ],
)  # fmt: skip
def test_mistakes_in_the_call(folder, arguments, words):
    assert words in ask(*arguments, code=2).stderr.replace("\n", " ")


def npy(header, data=b"", magic=b"\x93NUMPY\1\0"):
    return magic + len(header).to_bytes(2, "little") + header.encode("latin-1") + data


F4 = "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 40), }"
HOSTILE = {
    "empty": b"",
    "no .npy": b"PK\3\4" * 100,
    "cut": npy(F4, b"\0" * 959),
    "longer": npy(F4, b"\0" * 961),
    "objects": npy(F4.replace("<f4", "|O"), b"\0" * 960),
    "structured": npy(F4.replace("'<f4'", "[('x', '<f4')]"), b"\0" * 960),
    "code": npy("__import__('os').system('touch gone')", b"\0" * 960),
    "code in shape": npy(F4.replace("6, 40", "6, 40) or open('gone', 'w'"), b"\0" * 960),
    "huge": npy(F4.replace("6, 40", "999999999, 999999999"), b"\0" * 960),
    "larger than can be": npy(F4.replace("6, 40", "9" * 50 + ", 1"), b"\0" * 960),
    "negative": npy(F4.replace("6, 40", "-6, -40"), b"\0" * 960),
    "one side": npy(F4.replace("6, 40", "240,"), b"\0" * 960),
    "three sides": npy(F4.replace("6, 40", "6, 20, 2"), b"\0" * 960),
    "a long header": npy(F4 + " " * 20000, b"\0" * 960),
    "a header without end": b"\x93NUMPY\1\0\xff\xff" + F4.encode(),
    "another version": npy(F4, b"\0" * 960, b"\x93NUMPY\7\0"),
    "complex": npy(F4.replace("<f4", "<c8"), b"\0" * 1920),
    "text": npy(F4.replace("<f4", "<U1"), b"\0" * 960),
    "f1": npy(F4.replace("<f4", "<f1"), b"\0" * 240),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_matrices_are_not_trusted(folder, name):
    (folder / "A.npy").write_bytes(HOSTILE[name])
    said = ask(*FILES, code=4).stderr
    assert said.startswith("Error: A.npy: ")
    assert len(said.splitlines()) < 5
    assert not os.path.exists("gone")


def test_matrices_that_are_no_files(folder):
    os.mkfifo("pipe")
    for name in ("missing.npy", "pipe", "\0", "/proc/self/mem"):  # the last is a file that cannot be read
        with pytest.raises(DataError):
            read_matrix(name)
    for kind in (np.float32, np.float64, np.int32, np.float16, np.int8):
        for lying in (np.ascontiguousarray, np.asfortranarray):
            array = lying(np.arange(12).reshape(3, 4).astype(kind))
            np.save("x.npy", array)
            assert (read_matrix("x.npy") == array).all()
            write_matrix(folder / "y.npy", array)
            assert (np.load("y.npy") == array).all()
    np.save("x.npy", np.arange(6, dtype=">f4").reshape(2, 3))
    assert read_matrix("x.npy").tolist() == [[0, 1, 2], [3, 4, 5]]


HEAD = json.dumps({**ORDER, "sum": 0})[:-2]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10**6,
        HEAD + '{"add": [' * 10**6,
        HEAD + '{"form": "banana", "k": [[0, 40]]}}',
        HEAD + '{"form": "tcgen05.mma.cta_group::1.kind::f16", "k": [[0, 40]]}}',
        HEAD + '{"fma": "f32", "k": [[0, 41]]}}',
        HEAD + '{"fma": "f32", "k": [[0, 40], [39, 40]]}}',
        HEAD + '{"fma": "f32", "k": [[0, 39]]}}',
        "NaN",
        "",
    ],
    ids=lambda text: text[-30:],
)
def test_hostile_orders_are_not_trusted(folder, text):
    (folder / "ORDER.json").write_text(text)
    for words in (("order", "--file", "ORDER.json"), FILES, ("diff", "ORDER.json", "ORDER.json")):
        assert ask(*words, code=4).stderr.startswith("Error: ORDER.json: ")
    os.remove("ORDER.json")
    assert ask("diff", "ORDER.json", "ORDER.json", code=4)
    (folder / "ORDER.json").symlink_to("/dev/zero")
    assert ask("order", "--file", "ORDER.json", code=4)


def test_a_file_of_gigabytes_is_not_read(folder):
    with open("ORDER.json", "r+b") as file:
        file.truncate(1 << 33)
    assert "8589934592 bytes" in ask("order", "--file", "ORDER.json", code=4).stderr
    with open("B.npy", "r+b") as file:
        file.truncate(1 << 33)
    (folder / "ORDER.json").write_text(json.dumps(ORDER))
    assert "B.npy: 8589934592 bytes" in ask(*FILES, code=4).stderr


def test_two_orders_are_compared(folder):
    (folder / "other.json").write_text(json.dumps({**ORDER, "sum": {"form": WGMMA, "k": [[0, 40]]}}))
    assert json.loads(ask("diff", "ORDER.json", "ORDER.json", "--json").stdout)["same"] is True
    words = ask("diff", "ORDER.json", "other.json", code=1).stdout
    assert "first: sum 2: k 32 by a multiply-add in f32 from zero" in " ".join(words.split())
    said = json.loads(ask("diff", "ORDER.json", "other.json", "--json", code=1).stdout)
    assert (said["first"]["products"], said["second"]["products"]) == ([32], [*range(32, 40)])
    sides = np.zeros((2, 40))
    for k, x, y in said["operands"]["products"]:
        sides[:, k] = x, y
    both = [
        order_oracle.element(json.loads((folder / name).read_text()), *sides.tolist())
        for name in ("ORDER.json", "other.json")
    ]
    assert [d.hex() for d in both] == said["operands"]["d"]
    assert both[0] != both[1]
    assert "orders of other products" in ask("diff", "ORDER.json", _of_f16(folder), code=2).stderr


def _of_f16(folder):
    data = {**ORDER, "types": {"a": "f16", "b": "f16", "d": "f32"}, "sum": {"fma": "f32", "k": [[0, 40]]}}
    (folder / "f16.json").write_text(json.dumps(data))
    return "f16.json"
