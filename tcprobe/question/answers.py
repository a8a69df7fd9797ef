"""The types of what commands print with `--json`: docs/schema.json follows from them.

    class AgreementAnswer(Answer):
        \"\"\"Whether a writer and a reader touch the same bytes.\"\"\"

        agree: bool
        different: Annotated[int, Meta(description="Elements that lie elsewhere.", ge=0)]
        first: Different | None  # a NamedTuple is an object, too: what Python has and what JSON has is declared once
        change: Change | UnsetType = UNSET  # left out where there is none

    @command(agree, short="...", json=AgreementAnswer)

A command whose options choose between several has one for each: `json={"": SharedAnswer, "--decode": DecodedAnswer}`.
Of a module that is imported late the type is a text, "tcprobe.ask.load.straight:LoadAnswer", or a function gives it.
What answers fills its type in, `AgreementAnswer.of(self, reader=self.reader.text)`, and `plain` gives what `json.dumps`
takes.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pkgutil import resolve_name
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins
from msgspec.structs import fields as struct_fields

from tcprobe.values import Json

DECLARED: dict[str, Any] = {}  # by command
SCALARS: dict[Any, Json] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    types.NoneType: {"type": "null"},
    Any: {},
}
NUMBERS_AND_TEXTS = (str, int, float, types.NoneType)
# what `Meta` says of a field -> the word of JSON Schema
BOUNDS = {
    "ge": "minimum",
    "le": "maximum",
    "min_length": "minItems",
    "max_length": "maxItems",
    "gt": "exclusiveMinimum",
    "pattern": "pattern",
    "description": "description",
}


class Answer(Struct, rename=lambda name: name.removesuffix("_")):
    """An object of JSON; `from_` is "from". A field is never taken away or given another meaning without a new
    `version`.
    """

    version: ClassVar[int] = 1

    @classmethod
    def of(cls, source: object, /, **others: Any) -> Self:
        """Filled from `others`, and from what `source` has by the names of the other fields.

        What may be left out is taken from another answer only.
        """
        names, defaults = cls.__struct_fields__, cls.__struct_defaults__
        optional = zip(reversed(names), reversed(defaults), strict=False)
        skipped = set() if isinstance(source, Answer) else {name for name, default in optional if default is UNSET}
        taken = (name for name in names if name not in others and name not in skipped and hasattr(source, name))
        return cls(**{name: getattr(source, name) for name in taken}, **others)


def plain(answer: Any) -> Json:
    """What `json.dumps` takes, without the fields that are left out."""
    made: Json = _plain(answer)
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, NUMBERS_AND_TEXTS):
        return value
    if isinstance(value, Struct) and value.__struct_config__.omit_defaults:
        return to_builtins(value)
    if isinstance(value, Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {key: _plain(one) for name, key in names if (one := getattr(value, name)) is not UNSET}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value]


def declare(command: str, answer: Any) -> None:
    """Say what a command prints: a type, several with `|`, or one by what its name in the schema goes on with; or what
    gives that once somebody asks: a text MODULE:NAME, or a function.
    """
    DECLARED[command] = answer


def schemas() -> dict[str, Json]:
    """The schema of every answer that was declared, by COMMAND or COMMAND VARIANT."""
    found = {}
    for command, answer in DECLARED.items():
        given = _loaded(answer)
        for variant, one in (given if isinstance(given, Mapping) else {"": given}).items():
            found[f"{command} {variant}".strip()] = schema(_loaded(one))
    return found


def _loaded(answer: Any) -> Any:
    given = resolve_name(answer) if isinstance(answer, str) else answer
    return given() if isinstance(given, types.FunctionType) else given


def schema(answer: Any) -> Json:
    """The JSON Schema (2020-12) of a line of this type, with its version; objects within it stand where they are."""

    kind = get_args(answer)[0] if get_origin(answer) is Annotated else answer
    parts = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    return {"version": max(getattr(part, "version", 1) for part in parts), **schema_of(answer)}


def schema_of(hint: Any) -> Json:
    """The JSON Schema of a type."""
    outer, inner = get_origin(hint), get_args(hint)
    if hint in SCALARS:
        made = SCALARS[hint]
    elif outer is Annotated:
        made = schema_of(inner[0]) | {key: said for meta in inner[1:] for key, said in _said(meta)}
    elif outer in (Union, types.UnionType):
        several = [schema_of(one) for one in inner if one is not UnsetType]
        scalars = all(one in SCALARS.values() for one in several)
        made = {"type": [one["type"] for one in several]} if scalars else {"anyOf": several}
        made = several[0] if len(several) == 1 else made
    elif outer is Literal:
        made = {"enum": list(inner)}
    elif outer is tuple and inner[-1] is not Ellipsis:
        length = {"minItems": len(inner), "maxItems": len(inner)}
        made = {"type": "array", "prefixItems": [schema_of(one) for one in inner], **length}
    elif outer in (list, tuple, Sequence):
        made = {"type": "array", "items": schema_of(inner[0])}
    elif outer in (dict, Mapping):
        made = {"type": "object", "additionalProperties": schema_of(inner[1])}
    else:
        made = _object(hint)
    return made


def _said(meta: Meta) -> Iterator[tuple[str, Any]]:
    yield from ((word, said) for name, word in BOUNDS.items() if (said := getattr(meta, name)) is not None)
    yield from (meta.extra_json_schema or {}).items()


def _object(kind: Any) -> Json:
    hints = get_type_hints(kind, include_extras=True)
    if issubclass(kind, Struct):
        names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    else:
        names = {name: name for name in getattr(kind, "_fields", None) or [field.name for field in fields(kind)]}
    optional = {name for name in names if UnsetType in get_args(hints[name])}
    if issubclass(kind, Struct) and kind.__struct_config__.omit_defaults:  # a part of a finding
        of_kind = struct_fields(kind)
        optional = {one.name for one in of_kind if not one.required}
        hints |= {one.name: _without_none(hints[one.name]) for one in of_kind if one.default is None}
    return {
        "description": " ".join((kind.__doc__ or "").split()),
        "type": "object",
        "properties": {key: schema_of(hints[name]) for name, key in names.items()},
        "required": [key for name, key in names.items() if name not in optional],
        "additionalProperties": False,
    }


def _without_none(hint: Any) -> Any:
    return Union[tuple(one for one in get_args(hint) if one is not types.NoneType)]  # noqa: UP007
