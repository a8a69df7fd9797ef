"""Formats and fused multiply-adds, of which the model is made, against NumPy, ml_dtypes and exact fractions."""

import numpy as np
import pytest

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.formats import bits_of, decode, values_of
from tcprobe.arithmetic.model import _exact_fma, fma
from tcprobe.isa.dtypes import DTYPES


def test_fused_multiply_adds_are_exact():
    rng = np.random.default_rng(1)
    a, b, c = (rng.normal(size=4000) * 2.0 ** rng.integers(-400, 400, 4000) for _ in range(3))
    c[:2000] = -(a * b)[:2000]
    c[1000:2000] = np.nextafter(c[1000:2000], 0)
    assert [_exact_fma(*map(float, x)) for x in zip(a, b, c, strict=True)] == fma(a, b, c).tolist()
    wide = rng.integers(0, 1 << 64, (3, 20000), dtype=np.uint64).view(np.float64)
    wide[:, ::7] *= 2.0**-600
    wide = wide[:, np.isfinite(wide).all(axis=0)]
    assert [_exact_fma(*map(float, x)) for x in wide.T] == fma(*wide).tolist()
    assert fma(np.array([1e300]), np.array([1e300]), np.array([-np.inf]))[0] == -np.inf


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("f64",)])
def test_formats_decode_as_ml_dtypes_do(name):
    form = FORMATS[name]
    patterns = np.arange(1 << form.bits) if form.bits <= 16 else np.random.default_rng(0).integers(0, 1 << 32, 4096)
    found = decode(form, patterns)
    expected = values_of(form, patterns.astype(form.word)).astype(np.float64)
    ours = np.ldexp(found.significand.astype(np.float64), found.exponent - form.fraction)
    numbers = found.kind == 0
    assert (np.isfinite(expected) == numbers).all()
    assert (ours[numbers] == expected[numbers]).all()
    assert (bits_of(form, expected[numbers]) == patterns[numbers]).all()


@pytest.mark.parametrize("kind", DTYPES, ids=lambda kind: kind.name)
def test_the_pattern_of_one_fits_its_type(kind):
    assert 0 < kind.one < 1 << kind.bits
    assert kind.bits <= 64
