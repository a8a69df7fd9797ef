"""tcgen05 on the CPU: layouts against CUTLASS's, every kind of multiply against NumPy, and what is found."""

import math

import ml_dtypes
import numpy as np
import pytest
import tensor_kernels
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples
from tensor_kernels import METADATA, SCALES, A, B, run, text

from tcprobe.emulate.instructions.tcgen05_moves import extreme_of_floats
from tcprobe.emulate.matrix_words import InstructionWord, SharedWord, WrongWordError
from tcprobe.emulate.tensor_layout import accumulator, copied, registers
from tcprobe.emulate.tensor_memory import FENCE
from tcprobe.emulate.tensor_products import multiply, numbers
from tcprobe.errors import UsageError
from tcprobe.isa import bit_fields, inventory
from tcprobe.layout.descriptor import Descriptor, encode_tcgen05
from tcprobe.references import cute
from tcprobe.references import tensor_memory as stated

SHAPES = ("32x32b", "16x64b", "16x32bx2", "16x128b", "16x256b")
START = 2048  # of the dynamic part of shared memory


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("number", [1, 2, 4, 8])
def test_loads_move_what_cutlass_states(shape, number):
    table = cute.tensor_memory_table(shape, number)
    lane, column = registers(shape, number, number)
    assert list(zip(lane.ravel().tolist(), column.ravel().tolist(), strict=True)) == [tuple(c) for c in table.cells]


@pytest.mark.parametrize(("shape", "multicast"), [*stated.COPY_RUNS, ("4x256b", "")])
def test_copies_go_to_the_lanes_that_are_stated(shape, multicast):
    row, word, lane = copied(shape, multicast)
    for number, lanes in enumerate(stated.copy_lanes(shape, multicast)):
        assert sorted(set(lane[row == number].tolist())) == sorted(lanes)
    assert sorted(set(word.tolist())) == list(range(int(shape.partition("x")[2][:-1]) // 32))


@pytest.mark.parametrize(
    ("m", "pair", "ws"), [(128, 0, 0), (64, 0, 0), (256, 1, 0), (128, 1, 0), (32, 0, 1), (64, 0, 1)]
)
def test_d_is_where_cutlass_has_it(m, pair, ws):
    form = f"tcgen05.mma{'.ws' * ws}.cta_group::{1 + pair}.kind::f16"
    letter, found = stated.accumulator_layout(form, m), accumulator(m, 64, bool(pair), bool(ws))
    for row in range(m):
        for col in range(0, 64, 5):
            places = tuple(int(part[row, col]) for part in found)
            assert places == tuple(stated.place_accumulator(letter, (m, 64), row, col))


@given(st.sampled_from([0, 32, 64, 128]), st.booleans(), st.integers(1, 64), st.integers(1, 64), st.integers(0, 7))
def test_a_word_leads_to_the_bytes_of_the_canonical_layouts(swizzle, k_major, lbo, sbo, start):
    """As wgmma's descriptors, whose bytes were measured; CUTLASS has the same canonical layouts for both.

    With a swizzle and k contiguous, a multiply's 32 bytes of k stay inside a row of the pattern.
    """
    described = Descriptor(16 * lbo, 16 * sbo, swizzle, 0, 1024 * start)
    word = SharedWord.read(encode_tcgen05(described))
    line, byte = np.indices((32, 32 if swizzle and k_major else 64))
    stated_offsets = described.offset("k", line, byte) if k_major else described.offset("mn", byte, line)
    assert (word.addresses(k_major, line, byte) == described.start + stated_offsets).all()


@pytest.mark.parametrize("kind", bit_fields.KINDS)
def test_an_instruction_word_is_read_as_it_is_written(kind):
    types = [
        name for name in (*bit_fields.PLAIN.get(kind, ((), ()))[1], *bit_fields.SCALED.get(kind, ((), ()))[1]) if name
    ]
    for a in types:
        for b in types:
            said = {"m": 128, "n": 96, "a_type": a, "b_type": b}
            said |= {"scale_type": "ue8m0"} if kind.startswith("mx") else {"d_type": "s32" if kind == "i8" else "f32"}
            said |= {"b_major": "mn"} if b in ("f16", "e4m3") and kind != "mxf4" else {}
            found = InstructionWord.read(kind, bit_fields.encode_instruction(kind, said))
            assert (found.m, found.n, found.a, found.b, found.k_major_a) == (128, 96, a, b, True)
            assert found.k_major_b == ("b_major" not in said)


@pytest.mark.parametrize("word", [0, 1 << 46 | 3 << 61, 1 << 46 | 1 << 53, 1 << 46 | 1 << 52])
def test_words_without_a_meaning_are_refused(word):
    with pytest.raises(WrongWordError):
        SharedWord.read(word)


def packed(patterns, width):
    """Lines of patterns as 8 lines x 16 bytes side by side along the lines, then along k: no swizzle."""
    if width == 4:
        raw = (patterns[:, 0::2] | patterns[:, 1::2] << 4).astype(np.uint8)
    elif width in (6, -4):  # 16 to 16 bytes, with a gap
        bits = (patterns[..., None] >> np.arange(abs(width)) & 1).astype(np.uint8)
        chunks = np.packbits(bits.reshape(len(patterns), -1, 16 * abs(width)), axis=-1, bitorder="little")
        raw = np.pad(chunks, ((0, 0), (0, 0), (0, 16 - chunks.shape[2]))).reshape(len(patterns), -1)
    else:
        raw = np.ascontiguousarray(patterns.astype(f"u{width // 8}")).view(np.uint8).reshape(len(patterns), -1)
    return raw.reshape(len(raw) // 8, 8, -1, 16).transpose(2, 0, 1, 3)


def word_of(start, lines):
    return encode_tcgen05(Descriptor(16 * lines, 128, 0, 0, START + start))


WIDTHS = {"f16": 16, "bf16": 16, "tf32": 32, "e3m2": 6, "e2m3": 6, "e2m1": -4}
# kind, types of A and B, M, N, of a pair, .ws, and of a sparse A the selector
CASES = [
    ("f16", "bf16", "bf16", 128, 48, False, False),
    ("f16", "f16", "f16", 64, 24, False, False),
    ("tf32", "tf32", "tf32", 128, 16, False, False),
    ("f8f6f4", "e4m3", "e5m2", 128, 32, False, False),
    ("f8f6f4", "e2m1", "e3m2", 64, 16, False, False),
    ("f8f6f4", "e2m3", "e2m1", 128, 16, True, False),
    ("i8", "s8", "u8", 128, 32, False, False),
    ("f16", "f16", "f16", 256, 32, True, False),
    ("f16", "bf16", "bf16", 128, 64, True, False),
    ("f16", "f16", "f16", 32, 64, False, True),
    ("f16", "f16", "f16", 64, 64, False, True),
    ("mxf8f6f4", "e4m3", "e4m3", 128, 32, False, False),
    ("mxf8f6f4", "e5m2", "e2m1", 256, 32, True, False),
    ("mxf4", "e2m1", "e2m1", 128, 32, False, False),
    ("mxf4nvf4", "e2m1", "e2m1", 128, 48, False, False),
    ("mxf4nvf4", "e2m1", "e2m1", 256, 64, True, False),
    ("f16", "bf16", "bf16", 128, 48, False, False, 0),
    ("f16", "f16", "f16", 64, 24, False, False, 1),
    ("f16", "f16", "f16", 256, 32, True, False, 1),
    ("f16", "f16", "f16", 32, 64, False, True, 0),
    ("f16", "f16", "f16", 64, 64, False, True, 1),
    ("tf32", "tf32", "tf32", 128, 16, False, False, 1),
    ("tf32", "tf32", "tf32", 64, 64, False, True, 0),
    ("f8f6f4", "e4m3", "e5m2", 64, 32, False, False, 0),
    ("f8f6f4", "e2m1", "e3m2", 128, 16, False, False, 0),
    ("i8", "s8", "u8", 128, 32, False, False, 0),
    ("mxf8f6f4", "e4m3", "e4m3", 128, 32, False, False, 0),
    ("mxf4", "e2m1", "e2m1", 128, 32, False, False, 0),
    ("mxf4nvf4", "e2m1", "e2m1", 256, 64, True, False, 0),
]


def draw(kind, count, k, rng):
    """Patterns of small numbers of a type, and the numbers."""
    every = np.arange(
        1 << 16
        if kind in ("f16", "bf16")
        else 256
        if WIDTHS.get(kind, 8) == 8
        else 1 << abs(WIDTHS[kind])
        if kind != "tf32"
        else 1
    )
    if kind in ("f16", "bf16", "tf32"):
        values = rng.integers(-4, 5, (count, k)).astype(np.float64)
        made = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32}[kind]
        return values.astype(made).view("u4" if kind == "tf32" else "u2"), values
    values = numbers(kind, every.astype(np.uint8))
    good = every[np.isin(values, [-3, -2, -1, 0, 1, 2, 3])]
    patterns = rng.choice(good, (count, k)).astype(np.uint8)
    return patterns, numbers(kind, patterns)


def expanded(kind, stored, form, extent, rng):
    """(A in full of its stored numbers, each CTA's 128 lanes x 4 columns of metadata), at random as PTX allows."""
    one, span = kind == "tf32", 2 if kind in ("mxf4", "mxf4nvf4") else 1
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)] + [(2, 1)]
    choices = np.array([(0,), (1,)] if one else pairs)
    m, width = stored.shape
    at = choices[rng.integers(0, len(choices), (m, width // span // choices.shape[1]))]
    places = at + np.arange(at.shape[1])[:, None] * (2 if one else 4)
    columns = (places.reshape(m, -1)[..., None] * span + np.arange(span)).reshape(m, -1)
    full = np.zeros((m, 2 * width))
    np.put_along_axis(full, columns, stored, axis=1)
    fields = np.repeat(np.where(at == 1, 0xE, 0x4) if one else at, span, axis=2).reshape(m, -1)
    statement = stated.statements(inventory.instructions()[form], "e", extent)[0]
    image = np.zeros((2, 128, 4), np.uint32)
    for row, col in np.ndindex(m, width):
        for cell in statement.holding(row, col):
            image[cell.cta, cell.lane, cell.column] |= np.uint32(int(fields[row, col]) << cell.bit)
    return full, image


@pytest.mark.sampled(7)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_a_multiply_is_numpys(case, seed):
    kind, a_type, b_type, m, n, pair, ws, *selector = case
    rng = np.random.default_rng([seed, len(str(case))])
    k, scaled, blocks = (
        {"f16": 16, "tf32": 8}.get(kind, 64 if kind in ("mxf4", "mxf4nvf4") else 32),
        kind.startswith("mx"),
        1 + pair,
    )
    (pa, a), (pb, b) = draw(a_type, m, k, rng), draw(b_type, n, k << bool(selector), rng)
    form = f"tcgen05.mma{'.ws' * ws}{'.sp' if selector else ''}.cta_group::{blocks}.kind::{kind}"
    if selector:
        a, metadata = expanded(kind, a, form, stated.Extent(m, n, selector[0]), rng)
    k <<= bool(selector)
    widths = [4 if kind in ("mxf4", "mxf4nvf4") else WIDTHS.get(name, 8) for name in (a_type, b_type)]
    rows, cols = m // blocks, n // blocks
    images = [
        [(A, packed(pa[rows * i :][:rows], widths[0])), (B, packed(pb[cols * i :][:cols], widths[1]))]
        for i in range(blocks)
    ]
    said, copies = {"m": m, "n": n, "a_type": a_type, "b_type": b_type}, []
    if selector:
        said |= {"sparse": 1} | ({"sparsity_selector": selector[0]} if kind in ("f16", "tf32") else {})
        for i in range(blocks):
            images[i].append((METADATA, packed(metadata[i], 32)))
        copies += [
            f"add.u32 %r30, %r12, 340; mov.u64 %d10, {word_of(METADATA, 128)};",
            f"tcgen05.cp.cta_group::{blocks}.128x128b [%r30], %d10;",
        ]
    if scaled:
        size = 16 if kind == "mxf4nvf4" else 32
        said["scale_type"] = "ue4m3" if size == 16 else "ue8m0"
        form += f".block_scale.block{size}"
        for lines, factor, apart in ((m, "a", 0), (n, "b", 2048)):
            own = lines // blocks if factor == "a" else lines
            vector = k // size >> bool(selector)
            patterns = rng.choice([0x30, 0x38, 0x40] if size == 16 else [126, 127, 128], (lines, vector))
            patterns = patterns.astype(np.uint8)
            scale = np.repeat(numbers(said["scale_type"], patterns), k // vector, axis=1)
            a, b = (a * scale, b) if factor == "a" else (a, b * scale)
            for i in range(blocks):
                image = np.full((128, 4), 0x7F, np.uint8)
                image[:own, :vector] = patterns[own * i :][:own] if factor == "a" else patterns
                images[i].append((SCALES + apart, image.reshape(4, 32, 4).transpose(1, 0, 2)))
            atom = encode_tcgen05(Descriptor(0, 128, 0, 0, START + SCALES + apart))
            to = 256 if factor == "a" else 300
            copies += [
                f"add.u32 %r30, %r12, {to}; mov.u64 %d10, {atom};",
                f"tcgen05.cp.cta_group::{blocks}.32x128b.warpx4 [%r30], %d10;",
            ]
    else:
        said["d_type"] = "s32" if kind == "i8" else "f32"
    words = (word_of(A, rows), word_of(B, cols), bit_fields.encode_instruction(kind, said))
    columns = n // (128 // m if ws else 2 if pair and m == 128 else 1)
    cells, report = run(text(form, columns, pair, scaled, copies, bool(selector)), images, words, columns)
    assert report.finished
    halved = m == 64 and not ws  # D is in half of the lanes, all of which are read
    assert {finding.rule for finding in report.findings} <= ({"uninitialised"} if halved else set())
    places = accumulator(m, n, pair, ws)
    found = cells[places.cta, places.lane, places.column].view(np.int32 if kind == "i8" else np.float32)
    assert (found == a @ b.T).all()


def one(**changes):
    """A right kernel of f16, with texts exchanged."""
    rng = np.random.default_rng(3)
    (pa, a), (pb, b) = draw("f16", 128, 16, rng), draw("f16", 16, 16, rng)
    ptx = text("tcgen05.mma.cta_group::1.kind::f16", 16)
    for old, new in changes.get("edits", ()):
        assert old in ptx, old
        ptx = ptx.replace(old, new)
    instruction = bit_fields.encode_instruction(
        "f16", {"m": 128, "n": 16, "a_type": "f16", "b_type": "f16", "d_type": "f32"}
    )
    words = changes.get("words", (word_of(A, 128), word_of(B, 16), instruction))
    cells, report = run(ptx, [[(A, packed(pa, 16)), (B, packed(pb, 16))]], words, 16, *changes.get("schedule", ()))
    return report, (cells[0].view(np.float32) == a @ b.T).all()


def changed(edits, form="tcgen05.mma.cta_group::1.kind::f16", m=128, n=16, columns=16):
    """(D's cells, A, B's lines, report) of a kernel of f16 whose text has been changed."""
    rng = np.random.default_rng(11)
    (pa, a), (pb, b) = draw("f16", m, 16, rng), draw("f16", n, 16, rng)
    ptx = text(form, columns)
    for old, new in edits:
        assert old in ptx, old
        ptx = ptx.replace(old, new)
    said = {"m": m, "n": n, "a_type": "f16", "b_type": "f16", "d_type": "f32"}
    words = (word_of(A, m), word_of(B, n), bit_fields.encode_instruction("f16", said))
    cells, report = run(ptx, [[(A, packed(pa, 16)), (B, packed(pb, 16))]], words, columns)
    return cells[0].view(np.float32), a, b, report


ONE = "tcgen05.mma.cta_group::1.kind::f16 [%r12], %d2, %d3, %r1, %p7;"
AGAIN = f"{ONE}\nsetp.eq.u32 %p7, 0, 0;\n"


@examples(100, share=14)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4))
def test_lanes_that_are_disabled_keep_what_they_had(words):
    """The least bit of the first word is lane 0's."""
    movs = " ".join(f"mov.u32 %r{60 + i}, {word};" for i, word in enumerate(words))
    masked = ONE.replace("%p7", "{%r60, %r61, %r62, %r63}, %p7")
    found, a, b, report = changed([(ONE, f"{AGAIN}{movs}\n{masked}")])
    kept = np.array([words[lane // 32] >> lane % 32 & 1 for lane in range(128)])
    assert report.findings == []
    assert (found == (a @ b.T) * (2 - kept[:, None])).all()


@pytest.mark.parametrize("power", [0, 1, 15])
def test_d_is_scaled_before_a_product_is_added(power):
    found, a, b, report = changed([(ONE, AGAIN + ONE.replace("%p7", f"%p7, {power}"))])
    assert report.findings == []
    assert (found == (a @ b.T) * (1 + 2.0**-power)).all()


@examples(100, share=14)
@given(st.data())
def test_columns_of_b_count_as_zeros(data):
    """Runs of used columns and of zeros by turns, as the examples of PTX's text have them, from the least bit on."""
    m = data.draw(st.sampled_from([32, 64, 128]))
    used, zeros = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    word, mask = 1 << 39 | zeros - 1 << 40 | used - 1 << 48, []
    for part in range(128 // m):
        begins = data.draw(st.booleans())
        skipped = data.draw(st.integers(0, (zeros if begins else used) - 1))
        word |= begins << 32 + part | skipped << 8 * part
        turns = "1" * zeros + "0" * used if begins else "0" * used + "1" * zeros
        mask += [int(digit) for digit in (turns * 64)[skipped:][: 64 * m // 128]]
    form = "tcgen05.mma.ws.cta_group::1.kind::f16"
    issued = f"{form} [%r12], %d2, %d3, %r1, %p7;"
    edits = [(issued, f"mov.u64 %d15, {word};\n{issued.replace('%p7', '%p7, %d15')}")]
    columns = 64 * m // 128
    found, a, b, report = changed(edits, form, m, 64, columns)
    cells = accumulator(m, 64, False, True)
    assert report.findings == []
    assert (found[cells.lane, cells.column] == (a @ b.T) * (1 - np.array(mask))).all()


@pytest.mark.parametrize(
    ("kind", "more", "wanted"),
    [("max", "", np.max), ("min", "", np.min), ("max", ".abs.NaN", lambda d, axis: np.abs(d).max(axis))],
)
def test_a_load_reduces_the_columns_of_each_lane(kind, more, wanted):
    red = f"tcgen05.ld.red.sync.aligned.32x32b.x16.{kind}{more}.f32"
    held = ", ".join(f"%r{60 + i}" for i in range(16))
    edits = [
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r21}, [%r13+0];", f"{red} {{{held}}}, %r21, [%r13];"),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r21}, [%r13+5];", "mov.b32 %r21, %r65;"),
    ]
    found, a, b, report = changed(edits)
    assert report.findings == []
    assert (found[:, 0] == wanted(a @ b.T, axis=1)).all()
    assert (found[:, 5] == (a @ b.T)[:, 5]).all()


def test_a_load_that_reduces_is_in_flight_until_it_is_waited_for():
    red = "tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {%r60, %r61}, %r21, [%r13];"
    edits = [("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r21}, [%r13+0];\ntcgen05.wait::ld.sync.aligned;", red)]
    *_, report = changed(edits)
    assert "in-flight" in {finding.rule for finding in report.findings}


@given(st.lists(st.floats(width=32), min_size=2, max_size=9), st.booleans(), st.booleans(), st.booleans())
def test_the_extreme_of_floats_is_ptxs(numbers_, greatest, magnitudes, keeps):
    """A NaN counts only with .NaN or where all are; -0 is below 0."""
    held = np.array([numbers_], np.float32)
    made = extreme_of_floats(held.view(np.uint32), greatest, magnitudes, keeps)
    given_ = [abs(number) if magnitudes else number for number in held[0].tolist()]
    there = [number for number in given_ if not math.isnan(number)]
    if not there or (keeps and len(there) < len(given_)):
        assert made[0] == 0x7FFFFFFF
        return
    chosen = (max if greatest else min)(there, key=lambda number: (number, math.copysign(1, number)))
    assert made.view(np.float32)[0] == chosen
    assert math.copysign(1, made.view(np.float32)[0]) == math.copysign(1, chosen)


UNSTATED = {
    "tcgen05.shift.cta_group::1.down [%r12];": "which way rows go",
    ONE.replace("kind::f16", "kind::f16.ashift"): "with .ashift",
    "tcgen05.cp.cta_group::1.128x256b.b8x16.b6x16_p32 [%r12], %d2;": "with .b8x16",
    ONE.replace("kind::f16", "kind::f8f6f4").replace("%p7", "%p7, 1"): "operands",
    ONE.replace("::1", "::2").replace("%p7", "{%r60, %r61, %r62, %r63}, %p7"): "4 words of lanes",
}


@pytest.mark.parametrize("line", UNSTATED)
def test_what_no_source_states_is_refused_by_name(line):
    with pytest.raises(UsageError, match=rf"is not emulated.*{UNSTATED[line]}"):
        changed([(ONE, line)])


MEET = """tcgen05.fence::before_thread_sync;
barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
tcgen05.fence::after_thread_sync;"""
LD = "tcgen05.wait::ld.sync.aligned;\nst.global.b32 [%d8+0], %r21;"
MMA = "[%r12], %d2, %d3, %r1, %p7;"
FOUND = {
    "race": [
        [(f"{MEET}\nsetp.ne.u32 %p6", "setp.ne.u32 %p6")],
        [("WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p5, [%r4], 0;\n@!%p5 bra WAIT;", "")],
    ],
    "in-flight": [[(LD, "st.global.b32 [%d8+0], %r21;\ntcgen05.wait::ld.sync.aligned;")]],
    "proxy": [[("fence.proxy.async;", "")]],
    "leak": [[("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r12, 512;", "")]],
    "bounds": [
        [("dealloc.cta_group::1.sync.aligned.b32 %r12, 512;", "dealloc.cta_group::1.sync.aligned.b32 %r12, 256;")],
        [("shared::cta.b32 [%r5], 512;", "shared::cta.b32 [%r5], 48;")],
        [("shl.b32 %r13, %r7, 21;", "shl.b32 %r13, %r7, 20;")],
        [("mul.lo.u32 %r20, %r6, 128;", "add.u32 %r13, %r13, 512; mul.lo.u32 %r20, %r6, 128;")],
    ],
    "uninitialised": [[("setp.ne.u32 %p7, 0, 0;", "setp.eq.u32 %p7, 0, 0;")]],
    "deadlock": [[("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4];", "")]],
}


UNFENCED = [
    ("bar.warp.sync 0xffffffff;\ntcgen05.fence::after_thread_sync;", "bar.warp.sync 0xffffffff;"),
    (f"{MEET}\nsetp.ne.u32 %p6", "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;\nsetp.ne.u32 %p6"),
]
FENCES = [("tcgen05.fence::before_thread_sync;", ""), ("tcgen05.fence::after_thread_sync;", "")]
RELAXED = ("mbarrier.try_wait.parity.acquire.cluster", "mbarrier.try_wait.parity.relaxed.cluster")


@pytest.mark.parametrize("edit", UNFENCED)
def test_a_fence_that_a_kernel_with_fences_lacks_is_found(edit):
    report, _ = one(edits=[edit])
    assert {finding.rule for finding in report.findings} == {"race"}


def test_fences_that_barriers_stand_in_for_are_noted():
    report, right = one(edits=FENCES)
    assert (report.findings, right) == ([], True)
    assert any(FENCE in note for note in report.notes)


@pytest.mark.parametrize("schedule", [("late",), ("early",), ("random", 4)])
def test_fences_order_what_relaxed_waits_do_not(schedule):
    """The patterns of PTX ISA 9.1, section 9.7.16.6.4, are relaxed; without a fence such a wait orders nothing."""
    report, right = one(edits=[RELAXED], schedule=schedule)
    assert (report.findings, report.notes, right) == ([], [], True)
    for edits in ([RELAXED, UNFENCED[0]], [RELAXED, *FENCES]):
        report, _ = one(edits=edits, schedule=schedule)
        assert {finding.rule for finding in report.findings} == {"race"}


@pytest.mark.parametrize("schedule", [("late",), ("random", 4)])
def test_a_right_kernel_has_no_finding(schedule):
    report, right = one(schedule=schedule)
    assert report.findings == []
    assert not any(FENCE in note for note in report.notes)
    assert right
    assert report.finished


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("rule", "edits"), [(rule, edits) for rule, every in FOUND.items() for edits in every], ids=str
)
def test_what_is_wrong_is_found(rule, edits):
    report, _ = one(edits=edits)
    assert rule in {finding.rule for finding in report.findings}


def test_bits_without_a_meaning_are_found():
    report, _ = one(words=(word_of(A, 128) ^ 1 << 46, word_of(B, 16), 0x08040010))
    assert [finding.rule for finding in report.findings][:1] == ["bounds"]
    assert "bits 46 to 48" in report.findings[0].text


@pytest.mark.parametrize("m", [128, 64])
def test_a_is_taken_from_tensor_memory_as_threads_stored_it(m):
    """Two elements of 16 bits a column, a lane a row; of .ws with M = 64 each half of N has A in its own lanes."""
    form, n = ("tcgen05.mma.cta_group::1.kind::f16", 16) if m == 128 else ("tcgen05.mma.ws.cta_group::1.kind::f16", 64)
    columns = n * m // 128
    store = "\n".join(
        [
            "add.u32 %r40, %r13, 128;",
            *(
                f"shl.b32 %r41, %r2, 5; add.u32 %r41, %r41, %r3; ld.shared.b32 %r{50 + j}, [%r41+{4 * j}];"
                for j in range(8)
            ),
            "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r40], {" + ", ".join(f"%r{50 + j}" for j in range(8)) + "};",
            "tcgen05.wait::st.sync.aligned;",
            MEET,
        ]
    )
    rng = np.random.default_rng(5)
    (pa, a), (pb, b) = draw("f16", 128, 16, rng), draw("f16", n, 16, rng)
    ptx = text(form, columns).replace(MMA, "[%r12], [%r40], %d3, %r1, %p7;")
    ptx = ptx.replace(
        "ld.shared.b32 %r12, [%r5];",
        f"ld.shared.b32 %r12, [%r5];\nshl.b32 %r13, %r7, 21; add.u32 %r13, %r13, %r12;\n{store}",
    )
    instruction = bit_fields.encode_instruction(
        "f16", {"m": m, "n": n, "a_type": "f16", "b_type": "f16", "d_type": "f32"}
    )
    image = [(A, np.ascontiguousarray(pa).view(np.uint8)), (B, packed(pb, 16))]
    cells, report = run(ptx, [image], (0, word_of(B, n), instruction), columns)
    assert report.findings == []
    for half in range(128 // m):
        part = slice(half * columns, (half + 1) * columns)
        lanes = slice(half * m, (half + 1) * m)
        assert (cells[0].view(np.float32)[lanes] == a[lanes] @ b[part].T).all()
    late, _ = (
        run(ptx.replace("tcgen05.wait::st.sync.aligned;", ""), [image], (0, word_of(B, n), instruction), columns),
        None,
    )
    assert "in-flight" in {finding.rule for finding in late[1].findings}


def test_sums_that_no_order_changes_are_exact():
    a, b = np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])
    assert multiply(a, b, np.array([[0.5]])) == (np.array([[11.5]]), True)
    assert not multiply(a * 2.0**30, b, np.array([[0.5]]))[1]


def test_the_kernel_of_these_tests_has_room():
    assert tensor_kernels.SHARED > SCALES + 4096 > B > A
