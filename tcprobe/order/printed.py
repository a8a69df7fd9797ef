"""What `order --json` prints. Sums stand in sums: these schemas have definitions, to which their parts refer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from tcprobe.order.proof import Difference
from tcprobe.order.terms import Shown
from tcprobe.question.answers import UNSET, Answer, Meta, UnsetType, schema_of

Size = Annotated[int, Meta(ge=0)]
Ranges = Annotated[Any, Meta(extra_json_schema={"$ref": "#/$defs/ranges"})]
OneSum = Annotated[Any, Meta(extra_json_schema={"$ref": "#/$defs/sum"})]
OrderRef = Annotated[Any, Meta(extra_json_schema={"$ref": "#/$defs/order"})]
TermsRef = Annotated[Any, Meta(extra_json_schema={"$ref": "#/$defs/terms"})]
Products = Annotated[list[Annotated[list[Size], Meta(min_length=2, max_length=3)]], Meta(min_length=1)]
Ends = Annotated[list[Size], Meta(min_length=2, max_length=2)]


class FormSum(Answer):
    """Multiplies of a form."""

    form: str
    k: Products
    c: OneSum | UnsetType = UNSET


class FusedSum(Answer):
    """Fused multiply-adds."""

    fma: Literal["f32", "f64"]
    k: Products
    c: OneSum | UnsetType = UNSET


class AddedSums(Answer):
    """AddedSums of sums, from left to right."""

    add: Annotated[list[OneSum], Meta(min_length=1)]


class OrderTypes(Answer):
    """Element types."""

    a: str
    b: str
    d: str


class OrderFile(Answer):
    """As ORDER.json has it; further keys say where it was found."""

    arch: str
    types: OrderTypes
    k: Annotated[int, Meta(ge=1)]
    inputs: Literal["exact", "nearest even", "nearest away", "cut"]
    sum: OneSum


class TermsAnswer(Answer):
    """Elements of D that lack the same products or have the same ones twice: how many, the first and the last row and
    column, and an element that shows it. A[row][k] is `a`, B[k][col] is `b` (null of a reduction), all else is zero:
    D[row][col] is `d`, not `right`.
    """

    lost: Ranges
    double: Ranges
    elements: Annotated[int, Meta(ge=1)]
    rows: Ends
    cols: Ends
    shown: Shown


class PlacesAnswer(Answer):
    """Whether elements of D with the same operands have the same bits, wherever they are."""

    elements: int
    different: int
    alike: Annotated[
        list[list[int]],
        Meta(description="Of rows and of columns: the step and the number of those with the first one's order."),
    ]
    rows: list[int] | None
    cols: list[int] | None


class FoundOrder(Answer):
    """An order that was found and proven."""

    order: Annotated[OrderRef | None, Meta(description="Null where D lacks products or has some twice.")]
    alike: Annotated[
        tuple[str, ...],
        Meta(description="What gives the same bits: the order's own form first, other forms, other inputs."),
    ]
    elements: int
    different: int
    difference: Annotated[Difference | None, Meta(description="The first element that differs, null if none does.")]
    compared: Annotated[dict[str, int], Meta(description="Elements by kind of operands.")]
    places: Annotated[
        PlacesAnswer,
        Meta(
            description="Elements of D whose operands are repeated over it: how many have other bits than the first, "
            "in which rows and columns; none among the first `alike`."
        ),
    ]
    calls: int
    seconds: float
    kernel: Annotated[tuple[str, ...] | None, Meta(description="Names, null where no profiler gives them.")]
    lost: Annotated[
        Ranges,
        Meta(description="Products that are in no sum of some element of D; the exit code is 1."),
    ]
    double: Annotated[
        Ranges,
        Meta(description="Products that are in two sums or more of some element of D; the exit code is 1."),
    ]
    terms: Annotated[
        Sequence[TermsRef],
        Meta(description="The same by elements of D; empty where each product is in one sum."),
    ]
    others: Annotated[int, Meta(description="Elements of D that are wrong otherwise, beside those of `terms`.")]


class SpanAnswer(FoundOrder, before=True):
    """Sizes with one order."""

    sizes: Annotated[list[int], Meta(description="Of the side that varies; of one shape M.")]
    proven: Annotated[list[int], Meta(description="Sizes at which elements were compared too, beside the first.")]


class OneShapeAnswer(SpanAnswer, before=True):
    """The order of a call of one shape."""

    call: str


class SizesAnswer(Answer):
    """The orders of a call by size."""

    call: str
    side: Literal["m", "n", "k"]
    changes: Annotated[bool | None, Meta(description="Whether the bits of a fixed row change; null of sizes of k.")]
    spans: list[SpanAnswer]


class OrderBoundAnswer(Answer):
    """|D - exact| is at most `bound` x the sum of |a x b|; a product and the sums that it is in are rounded at most
    `roundings` times.
    """

    bound: float
    roundings: int


class SavedAnswer(Answer):
    """An order that was saved (--file), with what was asked of it: elements of D, those that differ from --d,
    --bound.
    """

    order: AnyOrder
    bound: OrderBoundAnswer | UnsetType = UNSET
    elements: int | UnsetType = UNSET
    different: int | UnsetType = UNSET


AnyOrder = Annotated[OrderFile, Meta(extra_json_schema={"additionalProperties": True})]
AnySum = Annotated[
    FormSum | FusedSum | AddedSums,
    Meta(
        description="A sum: multiplies of a form or fused multiply-adds, one after another over the products k, from c "
        "on; or additions of sums, from left to right."
    ),
]
AllRanges = Annotated[list[Ends], Meta(description="Half-open ranges of k, in ascending order.")]


def answers() -> dict[str, Any]:
    """By variant of the command."""
    of_a_file = {"sum": schema_of(AnySum)}
    of_a_call = of_a_file | {
        "order": schema_of(AnyOrder),
        "ranges": schema_of(AllRanges),
        "terms": schema_of(TermsAnswer),
    }
    found = Meta(
        description="The order of a CALL, found and proven; of several sizes the spans with one order.",
        extra_json_schema={"$id": "tcprobe:order-call", "$defs": of_a_call},
    )
    return {
        "": Annotated[SavedAnswer, Meta(extra_json_schema={"$id": "tcprobe:order", "$defs": of_a_file})],
        "CALL": Annotated[OneShapeAnswer | SizesAnswer, found],
    }
