"""Numbers of --fill: the nearest to every bound of a type, and texts of any length; no number becomes infinity."""

import math
import re

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.ask.reduce.mask import INT, literal, number
from tcprobe.cli import main
from tcprobe.errors import UsageError

D, S32 = "mma.m16n8k16.row.col.f32.f16.f16.f32.d", "mma.m16n8k32.row.col.s32.s8.s8.s32.d"
FILL = re.compile(r"const T fill = T\((.*)\);")


def filled(fragment, text):
    """The C++ of a fill, or the error."""
    done = CliRunner().invoke(main, ["reduce", fragment, "--mask", "row >= col", f"--fill={text}"])
    assert done.exit_code in (0, 2), done.output
    return FILL.search(done.stdout)[1] if done.exit_code == 0 else done.stderr


@pytest.mark.parametrize(
    "text", ["1e400", "-1e400", "9" * 400, "9" * 5000, "-" + "9" * 5000, "1e99999", "9" * 5000 + "f"]
)
def test_no_finite_number_becomes_infinity(text):
    for fragment in (D, S32):
        assert "too large to hold; infinity is inf or -inf" in filled(fragment, text)


@pytest.mark.parametrize(
    ("text", "of_f32", "of_s32"),
    [
        (str(INT), f"{INT}", f"{INT}"),
        (str(-INT - 1), f"{-INT - 1}", f"{-INT - 1}"),
        (str(-INT - 2), f"{-INT - 2}.0f", None),
        (str(INT + 1), f"{INT + 1}.0f", None),
        ("0" * 5000 + "7", "7", "7"),
        ("-0", "0", "0"),
        ("3.4028234663852886e38", "3.4028234663852886e+38f", None),
        ("3.5e38", None, None),
    ],
)
def test_bounds_of_types(text, of_f32, of_s32):
    for fragment, wanted in ((D, of_f32), (S32, of_s32)):
        found = filled(fragment, text)
        assert found == wanted if wanted else found.startswith("Error: ")


@given(st.from_regex(r"[+-]?[0-9]{1,60}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?f?", fullmatch=True))
def test_a_number_is_the_one_that_is_written(text):
    exact = float(text.rstrip("f"))
    try:
        found = number(text)
        written = literal(found, "f32")
    except UsageError:
        largest = float(np.finfo(np.float32).max)
        assert math.isinf(exact) or abs(exact) > largest or 0 < abs(exact) < 1 / largest
        return
    assert found == exact
    assert float(written.rstrip("f")) == exact
