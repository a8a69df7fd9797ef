"""Cases that told more of a chip than its parameters did, and a form that no parameters describe."""

import json
from pathlib import Path

import msgspec
import numeric_core as core
import numpy as np
import pytest

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.arithmetic.formats import decode
from tcprobe.arithmetic.model import dot
from tcprobe.arithmetic.parameters import (
    IN_GROUP,
    Arithmetic,
    ElementTypes,
    chained,
    types_of,
)
from tcprobe.ask import numeric_steps
from tcprobe.errors import DataError
from tcprobe.isa import names
from tcprobe.probes.numerics import Images, MultiplySize, floats, model_results
from tcprobe.probes.numerics_dots import Directed, Power
from tcprobe.store import kinds

replaced = msgspec.structs.replace
FP8S = ("e4m3", "e5m2", "f16")
HARD = [json.loads(line) for line in (Path(__file__).parent / "data/numerics_h200.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("found", HARD, ids=[row["form"] for row in HARD])
def test_hard_cases_of_an_h200(found):
    """Sums that round to zero, and subnormals that a wider type takes in: what the chip gave."""
    kinds_, rule = types_of(names.resolve(found["form"]).instruction), msgspec.convert(found["floats"], Arithmetic)
    a, b, c, d = (bits_of_cases(kinds_, name, found["cases"]) for name in "abcd")
    assert (dot(kinds_, rule, (a, b, c)) == d).all()


def bits_of_cases(kinds_, name, cases):
    word = FORMATS[getattr(kinds_, name)].word
    return np.vectorize(lambda text: int(text, 16))([case[name] for case in cases]).astype(word)


@pytest.mark.parametrize("id_", [id_ for id_, rule in core.RULES.items() if isinstance(rule, Arithmetic)])
def test_a_zero_is_positive_after_any_sum_in_the_group(id_):
    row, rule = names.resolve(id_).instruction, core.RULES[id_]
    made = floats(types_of(row), MultiplySize(1, 8, 8, row.stored), 30, seed=3)
    a, b = (np.broadcast_to(x, (30, 1, 8, 8, row.stored)) for x in (made.a[..., :, None, :], made.b[..., None, :, :]))
    d = dot(types_of(row), rule, (a, b, made.c))
    if not rule.negative_zero and rule.c == IN_GROUP and not rule.through_f32:  # which keeps the sign
        assert not (d == 1 << FORMATS[types_of(row).d].bits - 1).any()


@pytest.mark.parametrize("kind", [ElementTypes(a, b, "f32", "f32") for a in FP8S for b in FP8S])
def test_every_product_of_powers_has_factors(kind):
    dots = Directed(kind, 4, None)
    subnormal = dots.least - dots.a.fraction - dots.b.fraction
    for exponent in range(subnormal, dots.most + 1):
        a, b = dots.factors(Power(exponent))
        numbers = [decode(FORMATS[name], np.array(bits)) for name, bits in ((kind.a, a), (kind.b, b))]
        values = [int(x.significand) * 2.0 ** (int(x.exponent) - x.fraction) for x in numbers]
        assert values[0] * values[1] == 2.0**exponent


def test_a_form_that_no_parameters_describe_is_saved_with_cases():
    """As an emulated multiply that adds two trees: measured, all cases wrong, why, and what came out."""

    class Trees(core.Core):
        def computed(self, row, operands, satfinite):
            a, b, c = operands
            halves = [Images(a[..., at : at + 8], b[..., at : at + 8], np.zeros_like(c)) for at in (0, 8)]
            with np.errstate(all="ignore"):
                ours = sum(
                    model_results(row, core.rule(chained(8, 8), 25, 23), half).view(np.float32) for half in halves
                )
                return (ours + c.view(np.float32)).view(np.uint32)

    probe = core.experiment(core.MMA)
    body = probe.conclude(probe.measure(Trees(None)), None)
    assert (body.floats, body.wrong, len(body.shown)) == (None, body.random, 64)
    assert body.unfit.startswith("products are not a chain of sums")
    assert all(case.model is None for case in body.shown)
    found = core.finding(core.MMA, core.RULES[core.MMA])
    object.__setattr__(found, "body", body)
    kinds.check(found)
    object.__setattr__(found, "body", replaced(body, wrong=0, shown=[]))
    with pytest.raises(DataError):
        kinds.check(found)


@pytest.mark.parametrize(
    ("id_", "given", "words"),
    [
        (
            "wmma.mma.row.row.m16n16k16.f16.f32",
            ("1,1,1" + ",0" * 13, "1,0x1000,0x0001" + ",0" * 13, "0"),
            ["rounded toward zero: 0x3f801000 = 1.0004883", "rounded to f16, nearest even", "D = 0x3c00 = 1.0"],
        ),
        (
            "mma.m8n8k4.row.row.f16.f16.f16.f16",
            ("1,2,3,0.5", "1,1,1,-1", "100"),
            [
                "k 1: sum 0x40400000 = 3.0",
                "k 3: sum 0x40200000 = 2.5",
                "C plus the sum of k 0 to 1, plus that of k 2 to 3, to nearest even",
                "D = 0x5698 = 105.5",
            ],
        ),
        (
            core.F64,
            ("1,0.1,1,1", "1,0.1,1,-2", "5"),
            ["k 1: sum 0x40180a3d70a3d70a = 6.01", "D = 0x40140a3d70a3d70a = 5.01"],
        ),
    ],
)
def test_steps_of_sums_that_are_not_of_d(id_, given, words):
    """Every line is of the sums that there are: f32 ahead of an f16 D, products that are added one by one."""
    row = names.resolve(id_).instruction
    said = list(numeric_steps.steps(row, core.RULES[id_], numeric_steps.parse_case(row, *given)))
    assert [word for word in words if not any(word in line for line in said)] == []
