"""Sparse multiplies and mma.m8n8k4 against NumPy: A in full by its metadata, places by formulas of PTX's text."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

import tcprobe

NUMPY = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f32": np.float32,
    "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
    "s32": np.int32,
}
SEEDS = st.integers(0, 2**32 - 1)


def drawn(rng, kind, *shape):
    """Whole numbers, which every order of summing adds exactly, as a type has them."""
    return rng.integers(0 if kind == "u8" else -3, 4, shape).astype(NUMPY[kind])


def sparse(rng, kind, m, k):
    """(A in full, its stored values, index fields (m, stored)) of m rows; a chunk of tf32 has one value of two."""
    one = kind == "tf32"
    chunks = k // (2 if one else 4)
    choices = [(0,), (1,)] if one else [(i, j) for i in range(4) for j in range(4) if i != j]
    at = np.array(choices)[rng.integers(0, len(choices), (m, chunks))]
    stored, full = drawn(rng, kind, m, k // 2), np.zeros((m, k), NUMPY[kind])
    columns = (at + np.arange(chunks)[:, None] * (2 if one else 4)).reshape(m, -1)
    np.put_along_axis(full, columns, stored, axis=1)
    fields = at.reshape(m, -1)
    return full, stored, np.where(fields == 1, 0xE, 0x4) if one else fields


def metadata(kind, fields, selector, threads):
    """A word of each thread, PTX ISA 9.1, sections 9.7.14.6.2 and 9.7.15.6.2: 16 rows a warp, four threads a row."""
    words, bits = np.zeros(threads, np.uint32), 4 if kind == "tf32" else 2
    for row, col in np.ndindex(fields.shape):
        lane = row // 16 * 32 + row % 8 * 4
        if kind in ("f16", "bf16", "tf32"):  # a pair of threads, both rows in each
            half, inside = divmod(col, 16 // bits)
            lane, bit = lane + 2 * selector + half, row // 8 % 2 * 16 + inside * bits
            lane -= selector if fields.shape[1] * bits == 16 else 0  # one thread has it all
        else:
            lane, bit = lane + row // 8 % 2 + 2 * (col // 16 + selector), col % 16 * bits
        words[lane] |= np.uint32(int(fields[row, col]) << bit)
    return words


def cores(matrix):
    """Cores of 8 lines x 16 bytes, those along the lines first, as descriptors have them without swizzle."""
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(len(matrix), -1)
    return raw.reshape(len(raw) // 8, 8, -1, 16).transpose(2, 0, 1, 3).reshape(-1)


def described(start, lines):
    """A descriptor of such lines: between cores along k 16 bytes a line, along lines 128."""
    return start >> 4 | lines << 16 | 8 << 32


WGMMA = """.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 e, .param .u64 out, .param .u64 aregs)
{{
.reg .b32 %r<300>; .reg .b64 %d<20>; .reg .pred %p<4>;
.shared .align 128 .b8 smem[{size}];
ld.param.u64 %d0, [image]; ld.param.u64 %d1, [e]; ld.param.u64 %d2, [out]; ld.param.u64 %d3, [aregs];
mov.u32 %r0, %tid.x; mov.u32 %r1, smem; mov.u32 %r2, %r0;
FILL: setp.ge.u32 %p0, %r2, {words};
@%p0 bra FILLED;
mul.wide.u32 %d4, %r2, 4; add.u64 %d5, %d0, %d4; ld.global.b32 %r3, [%d5];
shl.b32 %r4, %r2, 2; add.u32 %r4, %r4, %r1; st.shared.b32 [%r4], %r3;
add.u32 %r2, %r2, 128; bra FILL;
FILLED:
fence.proxy.async;
bar.sync 0;
mul.wide.u32 %d4, %r0, 4; add.u64 %d5, %d1, %d4; ld.global.b32 %r5, [%d5];
mul.wide.u32 %d4, %r0, 16; add.u64 %d5, %d3, %d4;
ld.global.v4.b32 {{%r6, %r7, %r8, %r9}}, [%d5];
cvt.u64.u32 %d6, %r1; shr.u64 %d6, %d6, 4;
add.u64 %d7, %d6, {a}; add.u64 %d8, %d6, {b};
setp.ne.u32 %p1, 0, 0;
wgmma.fence.sync.aligned;
{form} {d}, {source}, %d8, %r5, {selector}, %p1{more};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
mul.wide.u32 %d4, %r0, {bytes}; add.u64 %d5, %d2, %d4;
{stores}
ret;
}}
"""
# D, A, B, n, selector
SPARSE = [
    ("f32", "f16", "f16", 16, 0),
    ("f16", "f16", "f16", 24, 1),
    ("f32", "bf16", "bf16", 8, 1),
    ("f32", "tf32", "tf32", 16, 0),
    ("f32", "e4m3", "e5m2", 32, 0),
    ("f16", "e5m2", "e5m2", 8, 0),
    ("s32", "s8", "s8", 16, 0),
    ("s32", "u8", "s8", 32, 0),
]


def registers_of_a(stored):
    """(128 threads, 4) words of 64 rows x 32 bytes: thread and word as of m16n8k16's A."""
    words = np.ascontiguousarray(stored).view(np.uint32)
    thread, i = np.indices((128, 4))
    return words[thread // 32 * 16 + thread % 32 // 4 + 8 * (i % 2), thread % 4 + 4 * (i // 2)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("held", ["registers", "shared memory"])
@pytest.mark.parametrize("case", SPARSE, ids=str)
def test_a_sparse_wgmma_is_the_product_of_a_in_full(case, held):
    @examples(6)
    @given(SEEDS)
    def check(seed):
        d, kind, other, n, selector = case
        rng, k = np.random.default_rng(seed), 64 // np.dtype(NUMPY[kind]).itemsize
        full, stored, fields = sparse(rng, kind, 64, k)
        b = drawn(rng, other, n, k)
        image = np.concatenate([cores(stored), cores(b)])
        count = n // 2 if d != "f16" else n // 4
        registers = "{" + ", ".join(f"%r{100 + i}" for i in range(count)) + "}"
        text = WGMMA.format(
            size=image.size,
            words=image.size // 4,
            a=described(0, 64),
            b=described(2048, n),
            form=f"wgmma.mma_async.sp.sync.aligned.m64n{n}k{k}.{d}.{kind}.{other}",
            d=registers,
            source="{%r6, %r7, %r8, %r9}" if held == "registers" else "%d7",
            selector=selector,
            more=""
            if kind in ("s8", "u8")
            else ", 1, 1" + (("" if held == "registers" else ", 0") + ", 0" if kind in ("f16", "bf16") else ""),
            bytes=4 * count,
            stores="\n".join(f"st.global.b32 [%d5+{4 * i}], %r{100 + i};" for i in range(count)),
        )
        launch = {"block": [128], "arguments": [image, metadata(kind, fields, selector, 128)]}
        launch["arguments"] += [np.zeros((128, count), np.uint32), registers_of_a(stored)]
        done = tcprobe.emulate(text, launch=launch)
        assert (done.findings, done.report.notes) == ([], [])
        slots = done.arrays[2].view(NUMPY[d])
        thread, i = np.indices(slots.shape)
        made = np.zeros((64, n))
        made[thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + thread % 4 * 2 + i % 2] = slots
        assert (made == full.astype(float) @ b.astype(float).T).all()

    check()


WARP = """.version 8.5
.target {target}
.address_size 64
.visible .entry k(.param .u64 given, .param .u64 out)
{{
.reg .b32 %r<40>; .reg .b64 %d<40>;
ld.param.u64 %d0, [given]; ld.param.u64 %d1, [out];
mov.u32 %r0, %tid.x;
mul.wide.u32 %d2, %r0, {bytes}; add.u64 %d3, %d0, %d2;
{loads}
{form} {operands};
mul.wide.u32 %d2, %r0, {stored}; add.u64 %d3, %d1, %d2;
{stores}
ret;
}}
"""


def one_warp(form, target, parts, count, tail=(), wide=4):
    """(32, count) words of D: `parts` are (32, words) of A, B, C, and of words that stand alone, `tail` after each."""
    kind, letter = f"b{8 * wide}", "r" if wide == 4 else "d"
    words = np.concatenate([np.ascontiguousarray(part) for part in parts], axis=1)
    names, first = [], 10
    for part in parts:
        names.append([f"%{letter}{first + i}" for i in range(part.shape[1])])
        first += part.shape[1]
    vectors = ["{" + ", ".join(each) + "}" for each in names[:3]]
    vectors += [each[0] + after for each, after in zip(names[3:], tail, strict=True)]
    d = "{" + ", ".join(f"%{letter}{10 + i}" for i in range(count)) + "}"
    loaded = [name for each in names for name in each]
    text = WARP.format(
        target=target,
        bytes=wide * words.shape[1],
        stored=wide * count,
        form=form,
        operands=", ".join([d, *vectors]),
        loads="\n".join(f"ld.global.{kind} {name}, [%d3+{wide * i}];" for i, name in enumerate(loaded)),
        stores="\n".join(f"st.global.{kind} [%d3+{wide * i}], %{letter}{10 + i};" for i in range(count)),
    )
    done = tcprobe.emulate(text, launch={"block": [32], "arguments": [words, np.zeros((32, count), words.dtype)]})
    assert done.findings == []
    return done.arrays[1]


def fragment(matrix, places):
    """(32, words) of a matrix, by the row and column of each thread's elements."""
    row, col = places
    return np.ascontiguousarray(np.broadcast_to(matrix[row, col], row.shape)).view(np.uint32)


def slots(count):
    """Thread and number of each of its elements."""
    return np.indices((32, count))


# form, types of D and A, k, selector
MMA_SP = [
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "f32", "f16", 16, 3),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16", "f16", "f16", 32, 1),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32", "f32", "tf32", 16, 0),
    ("mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32", "s32", "s8", 64, 0),
]


@pytest.mark.parametrize("case", MMA_SP, ids=lambda case: case[0])
def test_a_sparse_mma_is_the_product_of_a_in_full(case):
    @examples(15)
    @given(SEEDS)
    def check(seed):
        form, d, kind, k, selector = case
        rng, each = np.random.default_rng(seed), 4 // np.dtype(NUMPY[kind]).itemsize
        full, stored, fields = sparse(rng, kind, 16, k)
        if "ordered" in form and kind != "tf32":
            order = np.argsort(fields.reshape(16, -1, 2), axis=-1)
            fields = np.take_along_axis(fields.reshape(16, -1, 2), order, -1).reshape(16, -1)
            stored = np.take_along_axis(stored.reshape(16, -1, 2), order, -1).reshape(16, -1)
        b, c = drawn(rng, kind, k, 8), drawn(rng, d, 16, 8)
        t, i = slots(k // 2 * 16 // 32)
        word, within = i // each, i % each
        a_places = t // 4 + word % 2 * 8, (t % 4 + word // 2 * 4) * each + within
        u, j = slots(k * 8 // 32)
        b_places = (u % 4 + j // each * 4) * each + j % each, u // 4
        v, n = slots(4)
        d_places = v // 4 + n // 2 * 8, v % 4 * 2 + n % 2
        parts = [fragment(stored, a_places), fragment(b, b_places), fragment(c, d_places)]
        parts.append(metadata(kind, fields, selector, 32)[:, None])
        made = one_warp(form, "sm_90", parts, 2 if d == "f16" else 4, [f", {selector}"]).view(NUMPY[d])
        assert (made == (full.astype(float) @ b.astype(float) + c)[d_places]).all()

    check()


PATTERNS = {"e4m3": (0x00, 0x38, 0x40, 0xC4), "e2m1": (0, 2, 4, 13), "s4": (0, 1, 2, 13)}  # of 0, 1, 2, -3
V, N = slots(4)
D = V // 4 + N // 2 * 8, V % 4 * 2 + N % 2  # rows and columns of D in threads


def packed(patterns, each):
    """(32, words) of (32, elements) patterns, `each` in a word."""
    shifts = (32 // each * np.arange(each)).astype(np.uint32)
    return (patterns.reshape(32, -1, each).astype(np.uint32) << shifts).sum(-1, dtype=np.uint32)


def narrow(rng, kind, k):
    """(A in full, B, index fields (16, units), words of A and of B): 0 to 2 and -3, of 4 bits in pairs."""
    each, span = (4, 1) if kind == "e4m3" else (8, 2)
    patterns, numbers = np.array(PATTERNS[kind], np.uint8), np.array([0, 1, 2, -3])
    a, b = rng.integers(0, 4, (16, k // 2)), rng.integers(0, 4, (k, 8))
    pairs = np.array([(i, j) for i in range(4) for j in range(i + 1, 4)])
    at = pairs[rng.integers(0, len(pairs), (16, k // 4 // span))]
    columns = (at + 4 * np.arange(at.shape[1])[:, None]).reshape(16, -1, 1) * span + np.arange(span)
    full = np.zeros((16, k))
    np.put_along_axis(full, columns.reshape(16, -1), numbers[a], axis=1)
    thread, i = slots(k // 4)
    word, within = i // each, i % each
    a_places = thread // 4 + word % 2 * 8, (thread % 4 + word // 2 * 4) * each + within
    b_places = (thread % 4 + word * 4) * each + within, thread // 4
    words = [packed(patterns[a][a_places], each), packed(patterns[b][b_places], each)]
    return full, numbers[b], at.reshape(16, -1), words


@pytest.mark.parametrize("k", [64, 128])
def test_a_sparse_mma_of_four_bits_is_the_product_of_a_in_full(k):
    """Pairs of elements are stored; a row's metadata of K = 64 is in a pair of threads, of K = 128 in all four."""

    @examples(15)
    @given(SEEDS)
    def check(seed):
        rng = np.random.default_rng(seed)
        full, b, fields, words = narrow(rng, "s4", k)
        c = drawn(rng, "s32", 16, 8)
        e = metadata("s4", fields, k == 64, 32)[:, None]
        form = f"mma.sp::ordered_metadata.sync.aligned.m16n8k{k}.row.col.s32.s4.s4.s32"
        made = one_warp(form, "sm_90", [*words, fragment(c, D), e], 4, [f", {int(k == 64)}"]).view(np.int32)
        assert (made == (full @ b + c)[D]).all()

    check()


# form, k, scales of a row, their bits
SCALED = [
    ("kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0", 64, 1, (126, 127, 128)),
    ("kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", 128, 2, (126, 127, 128)),
    ("kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3", 128, 4, (0x30, 0x38, 0x40)),
]


@pytest.mark.parametrize("case", SCALED, ids=lambda case: case[0])
def test_a_sparse_mma_with_scales_is_the_product_of_a_in_full(case):
    """Thread and first byte of the scales at random, PTX ISA 9.1, section 9.7.14.3; 1/2, 1 and 2."""

    @examples(15)
    @given(SEEDS)
    def check(seed):
        form, k, many, bits = case
        rng = np.random.default_rng(seed)
        full, b, fields, words = narrow(rng, form.split(".")[4], k)
        (byte_a, byte_b), (thread_a, thread_b) = rng.integers(0, 5 - many, 2) & -many, rng.integers(0, (2, 4))
        of_a, of_b = rng.integers(0, 3, (16, many)), rng.integers(0, 3, (8, many))
        held_a, held_b = np.zeros((2, 32, 4), np.uint8)
        row, col = np.arange(16), np.arange(8)
        held_a[4 * (row % 8) + 2 * thread_a + row // 8, byte_a : byte_a + many] = np.array(bits)[of_a]
        held_b[4 * col + thread_b, byte_b : byte_b + many] = np.array(bits)[of_b]
        full = full * np.repeat(2.0 ** (of_a - 1), k // many, axis=1)
        b = b * np.repeat(2.0 ** (of_b - 1), k // many, axis=1).T
        c = drawn(rng, "f32", 16, 8)
        parts = [*words, fragment(c, D), metadata("s8", fields, 0, 32)[:, None]]
        parts += [held_a.view(np.uint32), held_b.view(np.uint32)]
        tail = [", 0x0", f", {{{byte_a}, {thread_a}}}", f", {{{byte_b}, {thread_b}}}"]
        name = f"mma.sp::ordered_metadata.sync.aligned.m16n8k{k}.row.col.{form}"
        made = one_warp(name, "sm_120a", parts, 4, tail).view(np.float32)
        assert (made == (full @ b + c)[D]).all()

    check()


def test_metadata_that_means_nothing_is_noted():
    """Two indices of a chunk are the same place."""
    form, zeros = MMA_SP[0][0], np.zeros((32, 4), np.uint32)
    words = np.zeros((32, 11), np.uint32)
    text = WARP.format(
        target="sm_90",
        bytes=44,
        stored=16,
        form=form,
        operands="{%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r7, %r8}, {%r9, %r10, %r11, %r12}, %r13, 0x0",
        loads="\n".join(f"ld.global.b32 %r{5 + i}, [%d3+{4 * i}];" for i in range(9)),
        stores="",
    )
    done = tcprobe.emulate(text, launch={"block": [32], "arguments": [words, zeros]})
    assert any("no meaning" in note for note in done.report.notes)


QUARTERS = [
    (d, c, a, b)
    for d, c in (("f32", "f32"), ("f16", "f16"), ("f32", "f16"))
    for a in ("row", "col")
    for b in ("row", "col")
]


def quarter_places(name, kind, layout):
    """(product, row, col) of each thread's elements, PTX ISA 9.1, section 9.7.14.5.1."""
    t, i = slots(8 if name == "d" else 4)
    product, member, upper = t % 16 // 4, t % 4, t // 16 * 4
    if name == "d" and kind == "f32":
        return product, (t & 1) + (i & 2) + upper, (i & 4) + (t & 2) + (i & 1)
    if name == "d":
        return product, member + upper, i
    if name == "a":
        return (product, member + upper, i) if layout == "row" else (product, i + upper, member)
    return (product, member, i + upper) if layout == "row" else (product, i, member + upper)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", QUARTERS, ids=str)
def test_each_quarter_of_a_warp_has_a_product(case):
    @examples(15)
    @given(SEEDS)
    def check(seed):
        d, c, of_a, of_b = case
        rng = np.random.default_rng(seed)
        given_ = {"a": drawn(rng, "f16", 4, 8, 4), "b": drawn(rng, "f16", 4, 4, 8), "c": drawn(rng, c, 4, 8, 8)}
        places = {"a": ("a", "f16", of_a), "b": ("b", "f16", of_b), "c": ("d", c, None)}
        parts = [np.ascontiguousarray(given_[n][quarter_places(*places[n])]).view(np.uint32) for n in "abc"]
        form = f"mma.sync.aligned.m8n8k4.{of_a}.{of_b}.{d}.f16.f16.{c}"
        made = one_warp(form, "sm_70", parts, 8 if d == "f32" else 4).view(NUMPY[d])
        wanted = given_["a"].astype(float) @ given_["b"].astype(float) + given_["c"]
        assert (made == wanted[quarter_places("d", d, None)]).all()

    check()


@examples(15)
@given(SEEDS)
def test_mma_of_f64_is_rounded_once_for_each_product(seed):
    """m8n8k4: a chain of fused multiplies and additions along k."""
    rng = np.random.default_rng(seed)
    a, b, c = (rng.standard_normal(shape) for shape in ((8, 4), (4, 8), (8, 8)))
    t, i = slots(2)
    lane = np.arange(32)
    parts = [a[lane // 4, lane % 4][:, None], b[lane % 4, lane // 4][:, None], c[t // 4, t % 4 * 2 + i]]
    form = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"
    made = one_warp(form, "sm_90", [np.ascontiguousarray(part).view(np.uint64) for part in parts], 2, wide=8)
    wanted = [[fused(a[row], b[:, col], c[row, col]) for col in range(8)] for row in range(8)]
    assert (made.view(np.float64) == np.array(wanted)[t // 4, t % 4 * 2 + i]).all()


def fused(a, b, total):
    """total + a b, each sum of a product rounded once."""
    for x, y in zip(a, b, strict=True):
        total = float(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(total)))
    return total
