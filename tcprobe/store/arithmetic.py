"""What was measured of a multiply's arithmetic: the finding, and the parameters that give every bit."""

from __future__ import annotations

from tcprobe.arithmetic.parameters import Arithmetic, Integers, subject
from tcprobe.errors import NoMajorityError, TcprobeError, UsageError
from tcprobe.isa.arch import arch as arch_row
from tcprobe.isa.instruction import Instruction
from tcprobe.store.choose import Layers, default
from tcprobe.store.finding import Sourced

KIND = "numerics"
MEASURED = "sm_90"  # the arch that is meant where none is named


def measured(instruction: Instruction, arch: str, layers: Layers | None = None) -> Sourced | None:
    """What was measured of a form's arithmetic on an arch, None if nothing."""
    if instruction.unprobed:
        return None
    return (layers or default()).finding(KIND, arch, subject(instruction))


def model(instruction: Instruction, arch: str | None = None, layers: Layers | None = None) -> Arithmetic | Integers:
    """The parameters of a form; UsageError where it has no model that gives every bit.

    NoMajorityError where as many devices found one arithmetic as another.
    """
    rule = _rule_for(instruction, arch, layers)
    if isinstance(rule, TcprobeError):
        raise rule
    return rule


def find_model(instruction: Instruction, arch: str, layers: Layers | None) -> Arithmetic | Integers | None:
    """As `model`, None where it has none."""
    rule = _rule_for(instruction, arch, layers)
    return None if isinstance(rule, TcprobeError) else rule


def _rule_for(
    instruction: Instruction, arch: str | None, layers: Layers | None
) -> Arithmetic | Integers | TcprobeError:
    """The parameters, or why there are none."""
    name = arch_row(arch or MEASURED).name
    sourced = measured(instruction, name, layers)
    if sourced is None:
        return UsageError(
            f"{instruction.id} has no model on {name}: its arithmetic was not measured.",
            "no arithmetic",
            id=subject(instruction),
        )
    if instruction.scales:
        return UsageError(
            f"{instruction.id} has scales: its parameters are known, products of it are not computed here."
        )
    try:
        body = sourced.settled.body
    except NoMajorityError as error:
        return error
    if body.unfit:
        return UsageError(f"{instruction.id} has no model on {name}: no parameters describe it: {body.unfit}")
    if body.wrong:
        return UsageError(f"{instruction.id} does not follow the model on {name}: {body.wrong} of {body.random} cases.")
    rule: Arithmetic | Integers = body.floats or body.integers
    return rule
