"""`trace` of tcgen05.mma: every product of an element of D, by hand, with what `where` says of each operand alone."""

import json

import pytest
from click.testing import CliRunner

from tcprobe.ask.trace_tensor_memory import TensorTraceRequest, trace_element
from tcprobe.cli import main
from tcprobe.isa import inventory

FORMS = [row for row in inventory.instructions().values() if row.family == "tcgen05" and row.multiplies]
BITS = {"f16": 16, "tf32": 32, "i8": 8, "f8f6f4": 8, "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4}


def asked(*arguments):
    done = CliRunner().invoke(main, ["trace", *map(str, arguments)])
    return done.exit_code, done.output


def where(operand, row, col, *more):
    done = CliRunner().invoke(main, ["where", operand, "--row", str(row), "--col", str(col), *more, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output.splitlines()[0])
    return [{**found["tmem"], "bit": found["bit"]}, *found.get("copies", ())]


def vectors(form):
    """The most scales of a row whose places are stated: six of K = 96 go beyond a cell."""
    found = {int(str(scale).split()[1].rstrip("X")) for scale in form.stated.get("scales", ())}
    return sorted(number for number in found if number <= 4)[-1:]


def core(line, byte, k_bytes):
    """Where a byte of a line lies without a swizzle: 8 lines x 16 bytes together, then along k, then the next lines."""
    return line // 8 * 8 * k_bytes + byte // 16 * 128 + line % 8 * 16 + byte % 16


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.id)
def test_every_product_by_hand(form):
    m, n = form.stated["m_values"][0], form.stated["n_values"][-1]
    row, col, sparse, paired = m - 3, n - 5, ".sp" in form.id, "cta_group::2" in form.id
    more = ["--m", str(m), "--n", str(n)]
    scaled = ["--scale-vec", *map(str, vectors(form))] if vectors(form) else []
    code, output = asked(form.id, "--row", row, "--col", col, *more, *scaled, "--json")
    assert code == 0, output
    found, bits, k = json.loads(output), BITS[form.kind], form.shape.k
    assert found["d"] == where(f"{form.id}.d", row, col, *more)
    line, a_cta = (row % (m // 2), row // (m // 2)) if paired else (row, 0)
    column, b_cta = (col % (n // 2), col // (n // 2)) if paired else (col, 0)
    assert (found["a_cta"], found["b_cta"]) == (a_cta, b_cta)
    stored = k // 2 if sparse else k
    assert [one["stored"] for one in found["meetings"]] == list(range(stored))
    met = {}
    for one in found["meetings"]:
        at = one["stored"]
        assert one["a_offset"] == core(line, at * bits // 8, stored * bits // 8)
        assert one["b_offsets"] == [core(column, each * bits // 8, k * bits // 8) for each in one["k"]]
        for each in one["k"]:
            met.setdefault(each, []).append(at)
        if sparse and at in (0, stored - 1):
            assert one["e"] == where(f"{form.id}.e", row, at, *more, "--selector", "0")
        assert set(one["scales"]) == ({"scale_a", "scale_b"} if scaled else set())
        for name, said in one["scales"].items():
            block = one["k"][0] * int(scaled[1]) // k
            element = (row, block) if name == "scale_a" else (block, col)
            assert (said["row"], said["col"]) == element
            if at in (0, stored - 1):
                assert said["tmem"] == where(f"{form.id}.{name}", *element, *more, *scaled, "--selector", "0")
    assert sorted(met) == list(range(k))  # every k of B is met, of a sparse form by what can stand for it
    each = {len(numbers) for numbers in met.values()}
    assert each == {1 if not sparse else 1 if form.kind == "tf32" else 2}


def test_swizzled_bytes():
    """A row of 128 bytes, whose 16-byte pieces are exchanged by the number of the line."""
    found = trace_element(
        inventory.instructions()["tcgen05.mma.cta_group::1.kind::f16"], TensorTraceRequest(swizzle=128), 11, 77
    )
    for k, one in enumerate(found.meetings):
        for offsets, line in (((one.a_byte,), 11), (one.b_bytes, 77)):
            byte = line * 128 + 2 * k
            assert offsets == (byte ^ (byte >> 7 & 7) << 4,)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("majors", [("mn", "k"), ("k", "mn"), ("mn", "mn")])
def test_lines_contiguous(swizzle, majors):
    """Rows of the pattern, or 16 bytes, hold lines; k follows k; 8 of them are together. By hand, of bf16."""
    form = inventory.instructions()["tcgen05.mma.cta_group::2.kind::f16"]
    found = trace_element(form, TensorTraceRequest(m=256, n=128, swizzle=swizzle, majors=majors), 171, 77)
    assert (found.a_cta, found.b_cta) == (1, 1)
    for k, one in enumerate(found.meetings):
        for (byte,), line, major in (((one.a_byte,), 171 - 128, majors[0]), (one.b_bytes, 77 - 64, majors[1])):
            assert byte == (lines_contiguous(line, k, swizzle) if major == "mn" else k_contiguous(line, k, swizzle))
    assert found.to_json()["majors"] == list(majors)


def lines_contiguous(line, k, swizzle):
    width = swizzle or 16
    row, inside = divmod(2 * line, width)
    within = k % 8 * width + inside
    at = row * width * 16 + k // 8 * 8 * width + within  # 16 k of a row of lines, then the next row
    return at ^ (at >> 7 & swizzle // 16 - 1) << 4 if swizzle else at


def k_contiguous(line, k, swizzle):
    at = line * swizzle + 2 * k
    return at ^ (at >> 7 & swizzle // 16 - 1) << 4 if swizzle else core(line, 2 * k, 32)


def test_the_register_that_a_load_leaves_d_in():
    form, load = "tcgen05.mma.cta_group::1.kind::f16", ("--ld", "16x256b.x4")
    code, output = asked(form, "--row", 45, "--col", 77, *load, "--json")
    assert code == 0
    done = CliRunner().invoke(main, ["where", f"{form}.d", "--row", "45", "--col", "77", *load, "--json"])
    said = json.loads(done.output)
    loaded = json.loads(output)["loaded"]
    assert loaded == {name: said[name] for name in ("warp", "lane", "register", "column_base", "lane_base")}
    code, output = asked(form, "--row", 45, "--col", 77, *load)
    assert f"loaded: warp {said['warp']}, lane {said['lane']}, register {said['register']}" in output


def test_a_in_tensor_memory():
    code, output = asked("tcgen05.mma.cta_group::1.kind::f16", "--row", 3, "--col", 5, "--a-in", "tensor", "--json")
    assert code == 0
    for one in json.loads(output)["meetings"]:
        assert one["a_offset"] is None
        assert one["a"] == where("tcgen05.mma.cta_group::1.kind::f16.a", 3, one["stored"])


def test_in_words():
    code, output = asked("tcgen05.mma.cta_group::2.kind::f16", "--m", 128, "--row", 70, "--col", 200)
    assert code == 0
    words = " ".join(output.split())
    assert "D[70][200] in tcgen05.mma.cta_group::2.kind::f16, M 128, N 256: cta 1, lane 70, column 72" in words
    assert "A[70][9] at byte 226 of cta 1 x B[9][200] at byte 2434 of cta 1" in words
    assert "documented only, by PTX ISA 9.1" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("tcgen05.mma.cta_group::1.kind::f16", "give --row and --col of D"),
        ("tcgen05.mma.cta_group::1.kind::f16 --row 200 --col 0", "it has no element 200, 0"),
        ("tcgen05.mma.cta_group::1.kind::f16 --row 0 --col 0 --m 96", "has no M 96"),
        ("tcgen05.mma.cta_group::1.kind::f16 --row 0 --col 0 --selector 1", "has no selector: remove --selector"),
        ("tcgen05.mma.cta_group::1.kind::f16 --row 0 --col 0 --a-in tensor --a-major k", "A in shared memory"),
        ("tcgen05.mma.cta_group::1.kind::tf32 --row 0 --col 0 --b-major mn", "B of tf32 with lines contiguous takes"),
        ("tcgen05.mma.cta_group::1.kind::mxf4 --row 0 --col 0 --major mn", "takes A with k contiguous only"),
        ("tcgen05.mma.cta_group::1.kind::f16 --n 8 --row 0 --col 0 --major mn --swizzle 64", "the 8 lines of B are 16"),
        ("tcgen05.mma.cta_group::1.kind::f16 --row 0 --col 0 --ld 32x32b.x3", "expected SHAPE.xN of tcgen05.ld"),
        ("wgmma.m64n8k16.f32.bf16.bf16 --row 3 --col 5 --b-major mn", "--b-major needs"),
        ("tcgen05.mma.cta_group::1.kind::f16 --row 0 --col 0 --a-in registers", "--a-in shared or tensor"),
        ("tcgen05.mma.cta_group::1.kind::f16 --row 0 --col 0 --lbo 16", "--lbo does not apply"),
        ("tcgen05.mma.cta_group::1.kind::f16 --operand a --byte 3", "--operand does not apply"),
        ("tcgen05.mma.cta_group::1.kind::f16 --row 0 --col 0 --arch sm_90", "sm_90 does not have"),
        ("tcgen05.mma.sp.cta_group::1.kind::f16 --row 0 --col 0 --swizzle 32", "use --swizzle 64"),
        ("tcgen05.mma.cta_group::1.kind::mxf4nvf4 --row 0 --col 0", "give --scale-vec 4"),
        ("tcgen05.mma.cta_group::1.kind::mxf8f6f4 --row 0 --col 0 --selector 4", "no selector 4"),
        ("tcgen05.mma.ws.cta_group::1.kind::f16 --m 32 --row 0 --col 0 --a-in tensor", "source states a layout of A"),
        ("wgmma.m64n8k16.f32.bf16.bf16 --row 3 --col 5 --a-in tensor", "in registers or in shared memory"),
        ("mma.m16n8k16.row.col.f32.f16.f16.f32 --row 3 --col 5 --m 64", "--m needs"),
        ("mma.m16n8k16.row.col.f32.f16.f16.f32 --row 3 --col 5 --a-in tensor", "no operand in shared memory"),
        ("tcgen05.cp.32x128b --row 3 --col 5", "is not a multiply"),
    ],
)
def test_what_cannot_be_is_refused(arguments, words):
    code, output = asked(*arguments.split())
    assert code == 2
    assert words in " ".join(output.split())
