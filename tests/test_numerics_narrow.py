"""Arithmetic of 6- and 4-bit types, which no available GPU has: any parameters of such a core are read back."""

import json
from fractions import Fraction

import machine_code
import msgspec
import numeric_core as core
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.formats import NAN, decode, decoded_scale
from tcprobe.arithmetic.model import dot
from tcprobe.arithmetic.parameters import AFTER, NEAREST, Arithmetic, ElementTypes, chained, forms_alike
from tcprobe.cli import main
from tcprobe.errors import ProbeError
from tcprobe.isa.arch import arch
from tcprobe.probes.numerics_directed import is_narrow, parameters
from tcprobe.probes.numerics_dots import Directed
from tcprobe.probes.numerics_kernels import kernel
from tcprobe.sass.cubin import assemble

replaced = msgspec.structs.replace
NARROW = ("e3m2", "e2m3", "e2m1")
SMALL = ("e4m3", *NARROW)
E2M1 = np.array([n / 2 for n in (0, 1, 2, 3, 4, 6, 8, 12)] * 2) * np.repeat([1, -1], 8)
HALVES = (tuple(range(0, 32, 2)), tuple(range(1, 32, 2)))


def directed(kind, rule):
    return Directed(kind, rule.products, lambda a, b, c: dot(kind, rule, (a, b, c)))


@st.composite
def narrow(draw):
    a, b = draw(st.permutations([draw(st.sampled_from(NARROW)), draw(st.sampled_from(SMALL))]))
    groups = draw(st.sampled_from([chained(32, 32), chained(32, 8), HALVES, HALVES[::-1], chained(64, 64)]))
    kept, bits = draw(st.sampled_from([(13, 13), (24, 23), (25, 23), (30, 23), (35, 23)]))
    normal = tuple(draw(st.sets(st.sampled_from("ab"))))
    rule = core.rule(groups, kept, bits, rounding="toward zero", normalized=tuple(sorted(normal)))
    return ElementTypes(a, b, "f32", "f32"), rule


@given(narrow())
@examples(60, deadline=None)
def test_any_parameters_of_narrow_types_are_read_back(form):
    kind, rule = form
    assert is_narrow(directed(kind, rule))
    assert parameters(directed(kind, rule)) == rule


@pytest.mark.parametrize("change", [{"rounding": NEAREST}, {"c": AFTER}])
def test_what_a_large_c_cannot_show_is_not_guessed(change):
    rule = replaced(core.rule(chained(32, 32), 25, 23), **change)
    with pytest.raises(ProbeError, match="beside a large C"):
        parameters(directed(ElementTypes("e2m1", "e2m1", "f32", "f32"), rule))


def test_products_that_are_added_before_they_are_cut_are_noticed():
    """As a unit that sums neighbours exactly."""
    kind, rule = ElementTypes("e2m1", "e2m1", "f32", "f32"), core.rule(chained(16, 16), 25, 23)
    wide = ElementTypes("f16", "f16", "f32", "f32")

    def pairs(a, b, c):
        sums = (E2M1[a] * E2M1[b]).reshape(len(c), 16, 2).sum(axis=2)
        return dot(wide, rule, (sums.astype(np.float16).view(np.uint16), np.full(sums.shape, 0x3C00, np.uint16), c))

    with pytest.raises(ProbeError, match="before they are cut"):
        parameters(Directed(kind, 32, pairs))


@pytest.mark.full
@pytest.mark.parametrize("kind", NARROW)
def test_a_form_of_sm_120_is_measured_as_a_gpu_of_it_would_be(kind):
    """Through its registers, 4- and 6-bit numbers in their bytes, under the documented layouts."""
    id_ = f"mma.m16n8k32.row.col.kind::f8f6f4.f32.{kind}.e5m2.f32"
    rule = core.rule(chained(32, 32), 25, 23)
    probe = core.experiment(id_)
    body = probe.conclude(probe.measure(core.Core(rule, "sm_120", documented=True)), None)
    assert isinstance(body.floats, Arithmetic)
    assert (body.floats, body.wrong, body.unfit) == (rule, 0, None)
    assert body.random >= 1024


SCALED = "mma.m16n8k{k}.row.col.kind::{kind}.block_scale.scale_vec::{tail}"
SPARSE = SCALED.replace("mma.", "mma.sp::ordered_metadata.", 1)
WIDE = {"exponent_floor": -133, "overflow": "infinity"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("id_", "rule"),
    [
        (
            SCALED.format(k=32, kind="mxf8f6f4", tail="1X.f32.e5m2.e4m3.f32.ue8m0"),
            core.rule(chained(32, 32), 25, 23, **WIDE),
        ),
        (
            SCALED.format(k=32, kind="mxf8f6f4", tail="1X.f32.e4m3.e2m1.f32.ue8m0"),
            core.rule(chained(32, 16), 25, 23, overflow="infinity"),
        ),
        (
            SCALED.format(k=64, kind="mxf4", tail="2X.f32.e2m1.e2m1.f32.ue8m0"),
            core.rule(chained(64, 64), 35, 23, overflow="infinity"),
        ),
        (SCALED.format(k=64, kind="mxf4nvf4", tail="4X.f32.e2m1.e2m1.f32.ue4m3"), core.rule(chained(64, 64), 35, 23)),
        (SPARSE.format(k=128, kind="mxf4nvf4", tail="4X.f32.e2m1.e2m1.f32.ue4m3"), core.rule(chained(64, 32), 30, 23)),
        (
            SPARSE.format(k=64, kind="mxf8f6f4", tail="1X.f32.e3m2.e2m3.f32.ue8m0"),
            core.rule(chained(32, 32), 25, 23, overflow="largest"),
        ),
    ],
    ids=lambda given: given.split("::", 1)[1][:24] if isinstance(given, str) else "",
)
def test_a_form_with_scales_is_measured_as_a_gpu_of_it_would_be(id_, rule):
    """Products take scales of any size as factors; every random case follows."""
    probe = core.experiment(id_)
    body = probe.conclude(probe.measure(core.Core(rule, "sm_120", documented=True)), None)
    assert (body.floats, body.wrong, body.unfit) == (rule, 0, None)
    assert body.random >= 1024


def numbers(bits):
    number = decoded_scale("ue4m3", bits)
    value = np.ldexp(number.significand.astype(np.float64), number.exponent - number.fraction)
    return np.where(number.kind == NAN, np.nan, value)


FOUR = SCALED.format(k=64, kind="mxf4nvf4", tail="4X.f32.e2m1.e2m1.f32.ue4m3")


class Blocks(core.Core):
    """A block's sum is exact and scaled; it aligns as one number, not by its scales alone."""

    def computed(self, row, operands, satfinite):
        a, b, c, scales = operands
        lines = a[..., :, None, :], b[..., None, :, :]
        sums = (E2M1[lines[0]] * E2M1[lines[1]]).reshape(*c.shape, 4, 16).sum(axis=-1)
        factors = [numbers(bits) for bits in (scales.a[..., :, None, :], scales.b[..., None, :, :])]
        terms = (sums * factors[0] * factors[1]).astype(np.float32).view(np.uint32)
        ones = np.full_like(terms, 0x3F800000)
        return dot(ElementTypes("tf32", "tf32", "f32", "f32"), self.rule, (terms, ones, c))


def test_blocks_that_align_as_numbers_are_not_the_model():
    """Measured, and said to have no model, with its cases."""
    probe = core.experiment(FOUR)
    body = probe.conclude(probe.measure(Blocks(core.rule(chained(4, 4), 35, 23), "sm_120", documented=True)), None)
    assert (body.floats, body.wrong) == (None, body.random)
    assert "aligns by its own exponent" in body.unfit
    assert all(len(case.scale_a) == len(case.scale_b) == 4 for case in body.shown)


class ScaledSums(core.Core):
    """What MMA-Sim says of RTX Blackwell, by fractions: 16 products exact, cut by their scales' exponents."""

    def computed(self, row, operands, satfinite):
        a, b, c, scales = operands
        d = np.zeros(c.shape, np.uint32)
        for at in np.ndindex(*c.shape):
            image, product, line, column = at
            one, other = (image, product, line), (image, product, column)
            d[at] = self.one((a[one], scales.a[one]), (b[other], scales.b[other]), c[at])
        return d

    def one(self, line, column, c):
        first, second = (decoded_scale("ue4m3", bits) for bits in (line[1], column[1]))
        own = decode(FORMATS["f32"], np.array([c]))
        if first.kind.any() or second.kind.any() or own.kind[0] == NAN:
            return 0x7FFFFFFF
        if own.kind[0]:
            return int(c)
        products = E2M1[line[0]] * E2M1[column[0]]
        scales = [int(x) for x in first.significand * second.significand]
        sums = [Fraction(float(products[16 * n : 16 * n + 16].sum())) * scales[n] / 64 for n in range(4)]
        terms = list(zip(sums, (int(x) for x in first.exponent + second.exponent), strict=True))
        terms.append((Fraction(int(own.significand[0]), 1 << 23), int(own.exponent[0])))
        terms = [term for term in terms if term[0]]
        unit = Fraction(2) ** (max((exponent for _, exponent in terms), default=0) - 35)
        return toward_zero(sum(int(number * Fraction(2) ** exponent / unit) for number, exponent in terms) * unit)


def toward_zero(exact):
    """An f32's bits of a fraction."""
    size, sign = abs(exact), 0x80000000 * (exact < 0)
    if not size:
        return 0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent = max(exponent - (Fraction(2) ** exponent > size), -126)
    return sign | min((exponent + 126 << 23) + int(size / Fraction(2) ** (exponent - 23)), 0x7F800000)


@pytest.mark.full
def test_sums_that_are_scaled_follow_the_model(whole):
    """As MMA-Sim has it, computed here without the model."""
    probe = core.experiment(FOUR, cases=256 if whole else 32)
    body = probe.conclude(probe.measure(ScaledSums(None, "sm_120", documented=True)), None)
    assert body.unfit is None
    assert (body.floats.summed_first, body.floats.fraction_bits, body.floats.groups) == (16, 35, chained(64, 64))
    assert body.wrong == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("count", "size", "kept"), [(16, 64, 35), (16, 32, 30), (4, 64, 28), (32, 64, 35)])
def test_any_sums_of_neighbours_are_read_back(count, size, kept):
    rule = core.rule(chained(64, size), kept, 23, summed_first=count, overflow="infinity")
    probe = core.experiment(SCALED.format(k=64, kind="mxf4", tail="2X.f32.e2m1.e2m1.f32.ue8m0"), cases=256)
    body = probe.conclude(probe.measure(core.Core(rule, "sm_120", documented=True)), None)
    assert (body.floats, body.wrong, body.unfit) == (rule, 0, None)


@pytest.mark.full
@machine_code.needs_tools
def test_ptxas_takes_kernels_with_scales(sample):
    rows = [row for rows in forms_alike().values() for row in rows[:1] if row.scales]
    assert len(rows) == 58
    made = [kernel(row) for row in sample(rows, 9)]
    refused = assemble(machine_code.TOOLS, made, arch("sm_120"))[1]
    assert [words for words in refused.values() if not words.startswith("needs PTX")] == []
    assert len(refused) < len(made)


def test_a_form_with_scales_is_answered_from_a_source_that_speaks_of_it():
    """Of one arch and its types; what it does not say is not guessed."""
    four = SCALED.format(k=64, kind="mxf4", tail="2X.f32.e2m1.e2m1.f32.ue8m0")
    done = CliRunner().invoke(main, ["numerics", four, "--arch", "sm_120", "--json"])
    found = json.loads(done.output)
    assert (found["status"], found["group"], found["fraction_bits"], found["exponent_floor"]) == (
        "published",
        64,
        35,
        None,
    )
    assert "16 products at a time are summed exactly" in found["evidence"]
    eight = SCALED.format(k=32, kind="mxf8f6f4", tail="1X.f32.e4m3.{b}.f32.ue8m0")
    for asked in (
        [four, "--arch", "sm_121"],
        [four, "--arch", "sm_120", "--header"],
        [four, "--arch", "sm_120", "--a", "1", "--b", "1"],
        [eight.format(b="e2m3"), "--arch", "sm_120"],
    ):
        assert CliRunner().invoke(main, ["numerics", *asked]).exit_code == 2, asked
    for known in ("e5m2", "e2m1"):
        assert CliRunner().invoke(main, ["numerics", eight.format(b=known), "--arch", "sm_120"]).exit_code == 0
