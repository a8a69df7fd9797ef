"""The types of what commands print with `--json`: docs/schema.json follows from them.

    class AgreementAnswer(Answer):
        \"\"\"Whether a writer and a reader touch the same bytes.\"\"\"

        agree: bool
        different: Annotated[int, Meta(description="Elements that lie elsewhere.", ge=0)]
        first: Different | None  # a NamedTuple is an object, too: what Python has and what JSON has is declared once
        change: Change | UnsetType = UNSET  # left out where there is none

    @command(agree, short="...", json=AgreementAnswer)

A command whose options choose between several has one for each: `json={"": SharedAnswer, "--decode": DecodedAnswer}`.
What answers fills its type in, `AgreementAnswer.of(self, reader=self.reader.text)`, and `plain` gives what `json.dumps`
takes.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

from msgspec import UNSET, Meta, Struct, UnsetType

from tcprobe.values import Json

ANSWERS: dict[str, Any] = {}  # COMMAND or COMMAND VARIANT -> the type of a line
SCALARS: dict[Any, Json] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    types.NoneType: {"type": "null"},
    Any: {},
}
# what `Meta` says of a field -> the word of JSON Schema
BOUNDS = {
    "ge": "minimum",
    "le": "maximum",
    "min_length": "minItems",
    "pattern": "pattern",
    "description": "description",
}


class Answer(Struct):
    """An object of JSON. A field is never taken away or given another meaning without a new `version`."""

    version: ClassVar[int] = 1

    @classmethod
    def of(cls, source: object, **others: Any) -> Self:
        """Filled from what `source` has by the names of the fields, and from `others`."""
        names = cls.__struct_fields__
        return cls(**{name: others[name] if name in others else getattr(source, name) for name in names})


def plain(answer: Struct) -> Json:
    """What `json.dumps` takes, without the fields that are left out."""
    return {name: _plain(value) for name in answer.__struct_fields__ if (value := getattr(answer, name)) is not UNSET}


def _plain(value: Any) -> Any:
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Struct):
        return plain(value)
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value]


def declare(command: str, answer: Any) -> None:
    """Say what a command prints: a type, several with `|`, or one by what its name in the schema goes on with."""
    for variant, one in (answer if isinstance(answer, Mapping) else {"": answer}).items():
        ANSWERS[f"{command} {variant}".strip()] = one


def schema(answer: Any) -> Json:
    """The JSON Schema (2020-12) of a line of this type, with its version; objects within it stand where they are."""
    parts = get_args(answer) if get_origin(answer) in (Union, types.UnionType) else (answer,)
    return {"version": max(part.version for part in parts), **_schema(answer)}


def _schema(hint: Any) -> Json:
    outer, inner = get_origin(hint), get_args(hint)
    if hint in SCALARS:
        made = SCALARS[hint]
    elif outer is Annotated:
        made = _schema(inner[0]) | {key: said for meta in inner[1:] for key, said in _said(meta)}
    elif outer in (Union, types.UnionType):
        several = [_schema(one) for one in inner if one is not UnsetType]
        scalars = all(one in SCALARS.values() for one in several)
        made = {"type": [one["type"] for one in several]} if scalars else {"anyOf": several}
        made = several[0] if len(several) == 1 else made
    elif outer is Literal:
        made = {"enum": list(inner)}
    elif outer is tuple and inner[-1] is not Ellipsis:
        length = {"minItems": len(inner), "maxItems": len(inner)}
        made = {"type": "array", "prefixItems": [_schema(one) for one in inner], **length}
    elif outer in (list, tuple, Sequence):
        made = {"type": "array", "items": _schema(inner[0])}
    elif outer in (dict, Mapping):
        made = {"type": "object", "additionalProperties": _schema(inner[1])}
    else:
        made = _object(hint)
    return made


def _said(meta: Meta) -> Iterator[tuple[str, Any]]:
    yield from ((word, said) for name, word in BOUNDS.items() if (said := getattr(meta, name)) is not None)
    yield from (meta.extra_json_schema or {}).items()


def _object(kind: Any) -> Json:
    hints = get_type_hints(kind, include_extras=True)
    fields = getattr(kind, "__struct_fields__", None) or kind._fields
    return {
        "description": " ".join((kind.__doc__ or "").split()),
        "type": "object",
        "properties": {name: _schema(hints[name]) for name in fields},
        "required": [name for name in fields if UnsetType not in get_args(hints[name])],
        "additionalProperties": False,
    }
