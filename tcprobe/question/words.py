"""A request is words in any order: what options take, and what is left, names.

A question declares beside each option which kind of word fills it (`Option.word`) and what else it is called; without
that the option's type says it: a choice is its own word, a flag its name, and a number stands beside the option's name,
`stages 4`, `4 stages`, `row=3`. `rewritten` turns words into the options that they stand for, and nothing else reads
words: a request means what the command with these options does.

A word that could be of a name too stays with the name if the name means something with it, and something else without;
then it cannot be what an option takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import click

from tcprobe.errors import UsageError, answer_or_none
from tcprobe.isa.names import likely
from tcprobe.notation import AFTER, begins_layout, follows_layout

MOST = 64  # words that are read; a longer request is taken as it stands
MOST_LETTERS = 200  # of a word
SAYS_NOTHING = 3  # the turn of kinds whose words are an option's where a name means the same without them


class Kind(NamedTuple):
    """A kind of word: how `read` has it, as the values of the option that declares it and of those that follow.

    It takes up to `most` words. Where names are asked for, kinds of lower `turn` are given to the name first; with
    `names` the last value is a word of the name. Texts with spaces are one word of a kind that is `whole`; an option
    takes `only` what its kind reads, also beside its name. Some kinds need another word `beside` them.
    """

    read: Callable[[str], Sequence[str] | None]
    most: int = 1
    turn: int = 0
    names: bool = False
    whole: bool = False
    beside: str = ""
    only: bool = False


def pattern(regex: str, spelled: str = r"\g<0>") -> Callable[[str], Sequence[str] | None]:
    """Reads what a pattern fits, any case, as what it stands for."""
    compiled = cache(re.compile)

    def read(text: str) -> Sequence[str] | None:
        match = compiled(regex, re.IGNORECASE).fullmatch(text)
        return (match.expand(spelled),) if match else None

    return read


def _gpu(text: str) -> Sequence[str] | None:
    # what is dotted is a fragment's name; of several words a brand's name is the first
    several = " " in text and not re.match(r"(?i)(nvidia|geforce|tesla|quadro|jetson|dgx|rtx|gtx|titan)\b", text)
    if "." in text or begins_layout(text) or several:
        return None
    if "," in text:
        return (text,) if all(map(_gpu, text.split(","))) else None
    from tcprobe.isa.arch import ARCHS, archs_of_gpu

    numbered = re.fullmatch(r"(?i)(sm_?|compute_)[0-9]{2,3}[af]?", text)
    generation = any(row.generation.partition(" ")[0].lower() == text.lower() for row in ARCHS)
    return (text,) if numbered or generation or archs_of_gpu(text) else None


def _element_type(text: str) -> Sequence[str] | None:
    from tcprobe.isa import dtypes

    types = dtypes.ptx_name(text).split("|")
    return (
        (text if len(types) == 1 else "|".join(types),) if set(types) <= {row.name for row in dtypes.DTYPES} else None
    )


def _major(text: str) -> Sequence[str] | None:
    said = re.fullmatch(r"(?i)(k|mn)(?:[-_ ]?major)?", text)
    if said:
        return (said[1].lower(),)
    return ("mn",) if re.fullmatch(r"(?i)transposed?|tnsp[ab]", text) else None


def _swizzle(text: str) -> Sequence[str] | None:
    from tcprobe.layout import swizzle

    bare = re.sub(r"(?i)^(?:swizzle|sw)[-_=]?(?=[0-9]+b?$)|[-_]?swizzle$", "", text)
    bytes_said = bare != text or not re.fullmatch("[0-9]+|none|plain", text, re.I)  # 128 alone may be anything
    mode = re.fullmatch(r"(?i)(?:swizzle_)?128b_atom_\w+", bare)  # of tensor maps
    return (bare,) if bytes_said and (mode or swizzle.is_swizzle(bare)) else None


def _shape(text: str) -> Sequence[str] | None:
    sides = re.fullmatch(r"(?i)m([0-9]+)n([0-9]+)(?:k[0-9]+)?", text)
    return (sides[1], sides[2]) if sides else None


def _element(text: str) -> Sequence[str] | None:
    place = re.fullmatch(
        r"(?:([a-eA-E])\s*)?(?:[(\[]\s*)?([0-9]{1,5})(?:\s*(?:,|\]\s*\[)\s*|(?<=[0-9]) (?=[0-9]))([0-9]{1,5})\s*[)\]]?",
        text,
    )
    return (place[2], place[3], (place[1] or "").lower()) if place else None


ARCH = Kind(_gpu, most=5)
TILE = Kind(pattern(r"[1-9][0-9]{0,6}(?:x[1-9][0-9]{0,6}){1,4}"), turn=2)  # 0x10 is a number
TYPE = Kind(_element_type, turn=1)
KERNEL_TYPE = Kind(lambda text: pattern(r"(?:mx|nv)fp?[468]")(text) or _element_type(text), turn=1)
SWIZZLE = Kind(_swizzle)
MAJOR = Kind(_major, turn=SAYS_NOTHING)
LINES = Kind(pattern("(row|col)(?:umn)?(?:[-_ ]?major)?", r"\1"), most=2, turn=SAYS_NOTHING)
SHAPE = Kind(_shape, turn=2, beside="tcgen05")  # fills the options of m and of n
PLACE = Kind(pattern(r"pad:[0-9]+|boxes:[0-9]+|plain"))
ELEMENT = Kind(_element, most=3, names=True, whole=True)  # fills the option of rows, and the next one, of columns
ELEMENT_OF_D = ELEMENT._replace(
    read=lambda text: read[:2] if (read := _element(text)) and read[2] in ("", "d") else None, names=False
)
COPY = Kind(pattern(r"tma|cp\.async(?:\.[0-9]+)?"))
CONDITION = Kind(pattern(r".*\b(?:row|col)\b.*[<>=].*|causal"), whole=True, only=True)
ACCESS = Kind(pattern(r"(?:(?:ld|st)\.shared|ldmatrix|stmatrix|cp\.async)\b.*"), only=True)
LANES = Kind(pattern(r"(?=.*[-+*/%&|^<>]).*\blane\b.*"), whole=True, only=True)


class Spoken(click.Option):
    """An option that words can fill: of a `kind`, or beside one of the names that it is `called`."""

    def __init__(self, *args: Any, kind: Kind | None = None, called: Sequence[str] = (), **extra: Any) -> None:
        super().__init__(*args, **extra)
        names = [option.lstrip("-") for option in self.opts if option.startswith("--")]
        self.called = {name.lower() for name in (*names, *called)}
        self.kind = kind or self._own_kind()
        self.is_number = bool(getattr(self.type, "is_number", False))

    def _own_kind(self) -> Kind | None:
        if self.is_flag:
            called = self.called - {"only"}  # a word of every language
            return Kind(lambda text: ("",) if text.lower().replace("_", "-") in called else None, turn=SAYS_NOTHING)
        if isinstance(self.type, click.Choice):
            words = {str(choice).lower(): str(choice) for choice in self.type.choices if str(choice) != "NONE"}
            return Kind(lambda text: (words[text.lower()],) if text.lower() in words else None, turn=SAYS_NOTHING)
        return None

    def takes(self, text: str) -> str | None:
        """What the option takes for a text that stands beside its name; None where it takes no such text."""
        if self.is_flag or isinstance(self.type, click.Path):
            return None
        if self.kind and (read := self.kind.read(text)) and len(read) == 1:
            return read[0]
        with suppress(click.UsageError, UsageError):
            self.type.convert(text, self, None)
            return None if self.kind and self.kind.only else text
        return None


class Among(click.Argument):
    """An argument among whose words those of options may stand: `names`, or one text."""

    def __init__(self, *args: Any, names: str = "", **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.names = names


Filled = list[tuple[Spoken, str]]


def rewritten(command: click.Command, ctx: click.Context, args: Sequence[str], strict: bool = False) -> list[str]:
    """The words of a command line with those that stand for options as these; as they are where none does.

    If they are `strict`, only names of GPUs do.
    """
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    if not all(isinstance(each, Among) for each in arguments) or len(arguments) > 1:
        return list(args)
    spoken = [each for each in command.params if isinstance(each, Spoken) and (each.kind is ARCH or not strict)]
    try:
        given, rest, _ = command.make_parser(ctx).parse_args(list(args))
    except click.UsageError:
        return list(args)  # the command itself says it, with its own help
    names = arguments[0].names if arguments and isinstance(arguments[0], Among) else ""
    beside = given.get(arguments[0].name or "") if arguments else None  # click has a value of its own for none
    tokens = [beside] if isinstance(beside, str) else list(beside) if isinstance(beside, list | tuple) else []
    tokens += rest
    if arguments and arguments[0].nargs == 1 and len(tokens) < 2:
        return list(args)
    words = _Request(spoken, names, bool(arguments)).read(tokens)
    if words is None:
        return list(args)
    filled, left = words
    options = [word for each in command.params for word in option_words(each, given)]
    gpus = ",".join(text for option, text in filled if option.kind is ARCH)
    for option, text in filled:
        if option.kind is not ARCH:
            options += [max(option.opts, key=len), *([] if option.is_flag else [_one_type(text)])]
        elif gpus:
            options, gpus = [*options, "--arch", gpus], ""
    return [*options, *(["--"] if any(word.startswith("-") for word in left) else []), *left]


def option_words(parameter: click.Parameter, given: dict[str, Any]) -> list[str]:
    """An option and its values as words of a command line."""
    value = given.get(parameter.name or "")
    if value is None or not isinstance(parameter, click.Option):
        return []
    if parameter.is_flag:
        return [parameter.opts[0]]
    values = value if isinstance(value, list) else [value]
    several = [each if isinstance(each, tuple) else (each,) for each in values]
    return [word for each in several for word in (parameter.opts[0], *map(str, each))]


def _one_type(text: str) -> str:
    """Of types with | between the one that people use, which is said."""
    types = text.split("|")
    if len(types) < 2 or not set(types) <= set(likely.types()):
        return text
    first = min(types, key=likely.types().index)
    likely.say(first, [other for other in types if other != first])
    return first


class _Request:
    """The words beside a command's options, read."""

    def __init__(self, spoken: Sequence[Spoken], names: str, has_argument: bool) -> None:
        self.spoken, self.names, self.has_argument = spoken, names, has_argument
        self.has_elements = any(option.kind in (ELEMENT, ELEMENT_OF_D) for option in spoken)
        self.by_name: dict[str, list[Spoken]] = {}
        names_of = spoken if len(spoken) > 1 else ()  # of strict words a GPU's own name alone is an arch
        for option in names_of:
            for name in option.called:
                self.by_name.setdefault(name, []).append(option)
        for option in names_of:
            for name in option.called:  # 1 stage, 8 warps
                self.by_name.setdefault(name.removesuffix("s") if name.endswith("s") else f"{name}s", [option])

    def read(self, tokens: Sequence[str]) -> tuple[Filled, list[str]] | None:
        """What options take, and the words left; None where no word is an option's."""
        pieces = [(word, whole) for token in tokens for word, whole in self._split(token)]
        if len(pieces) > MOST or any(len(word) > MOST_LETTERS for word, _ in pieces):
            return None
        words, kept = [word for word, _ in pieces], self._layouts(pieces)
        if len(words) > 1 and self.names and self._meaning([*enumerate(tokens)]):
            return None  # nothing but names
        filled: Filled = []
        left: list[tuple[int, str]] = []
        doubtful: list[tuple[int, str, Kind, Filled]] = []
        at = 0
        while at < len(words):
            size, found, kind = (0, [], None) if at in kept else self._at(words, at, kept, filled)
            text = " ".join(words[at : at + size])
            if not size:
                if self.has_argument or not self._says_nothing(words[at]):
                    left.append((at, words[at]))
            elif kind and self.names and not kind.beside and _may_be_name(text):
                doubtful.append((at, text, kind, found))
            else:
                letter = found.pop()[1] if kind and kind.names else ""
                if kind and re.search("[0-9] [0-9]", text) and len(found) > 1:
                    likely.say(f"--row {found[0][1]} --col {found[1][1]}", ["--lane and --i"])
                filled += found
                if letter and self.names:
                    left.append((at, letter))
            at += size or 1
        self._decide(doubtful, filled, left)
        if not filled and (self.has_argument or len(left) == len(words)):
            return None
        return filled, [word for _, word in sorted(left)]

    def _split(self, token: str) -> Iterator[tuple[str, bool]]:
        """The words of a token; a layout, a condition and an expression stay whole."""
        whole = (option.kind for option in self.spoken if option.kind and option.kind.whole)
        if (
            (self.has_argument and not self.names)
            or begins_layout(token)
            or any(kind.read(token.strip()) for kind in whole)
        ):
            yield token.strip() or token, True
        else:
            yield from ((word, False) for word in token.split() or [token])

    def _layouts(self, pieces: Sequence[tuple[str, bool]]) -> set[int]:
        """The places of layouts' texts, and of the words that follow them, which stay as they are."""
        words, kept = [word for word, _ in pieces], set[int]()
        for at, (word, _) in enumerate(pieces):
            if at in kept or not begins_layout(word) or (self.has_elements and _element(word)):
                continue
            last = at + 1
            while last < len(words) and follows_layout(words[at:last], words[last]):
                last += 1
            kept |= set(range(at, last))
        over = [at for at, word in enumerate(words[:-1]) if word in AFTER and re.match("[0-9(]", words[at + 1])]
        digits = [at for at, word in enumerate(words) if re.fullmatch("[0-9]+", word)]
        kept |= {at + i for at in digits if {at + 1, at + 2} <= set(digits) for i in range(3)}  # a shape, 16 8 16
        if self.names and any(words[at] == "over" for at in over):  # NAME warps 2x4 over 128x128x64
            kept |= {place for at in over for place in (at, at + 1)}
        return kept

    def _at(self, words: Sequence[str], at: int, kept: set[int], filled: Filled) -> tuple[int, Filled, Kind | None]:
        """How many words from one on fill options, which, and of which kind they are without the option's name."""
        word, beside = words[at].lower(), words[at + 1] if at + 1 < len(words) and at + 1 not in kept else None
        key, equals, value = word.partition("=")
        for name, text, size in (
            (key, words[at][len(key) + 1 :], 1) if equals and value else ("", "", 0),
            (word, beside or "", 2),
            ((beside or "").lower(), words[at] if re.fullmatch("[0-9]+(-[0-9]+|x[0-9]+)?", word) else "", 2),
            (re.sub("[0-9-]+$", "", word), re.sub("^[a-z]+", "", word), 1),
        ):
            if name and text and (size == 1 or beside) and (found := self._beside_its_name(name, text)):
                return size, [found], None
        for size in range(min(5, len(words) - at), 0, -1):
            if kept.intersection(range(at, at + size)):
                continue
            for place, option in enumerate(self.spoken):
                if (kind := option.kind) is None or size > kind.most or self._shared(option, kind):
                    continue
                if kind.beside and kind.beside not in " ".join(words).lower():
                    continue
                if read := kind.read(" ".join(words[at : at + size])):
                    options = [option, self.spoken[(place + 1) % len(self.spoken)], option]
                    return size, list(zip(options, read, strict=False)), kind
        return 0, [], None

    def _beside_its_name(self, name: str, text: str) -> tuple[Spoken, str] | None:
        """The option of this name, and what it takes of the text."""
        options, certain = self.by_name.get(name, []), len(name) > 1 and not _may_be_name(text)
        if self.names and (len(name) == 1 or _NOISY.fullmatch(name)):  # which a name has, too
            options = [each for each in options if each.is_number or (each.kind and each.kind.read(text) and certain)]
        taken = ((option, option.takes(text)) for option in options)
        return next(((option, value) for option, value in taken if value is not None), None)

    def _shared(self, option: Spoken, kind: Kind) -> bool:
        """Whether another option has the same choices, so that the word alone does not say which is meant."""
        if not isinstance(option.type, click.Choice) or kind in (MAJOR,):
            return False
        choices = [
            each.type.choices for each in self.spoken if each is not option and isinstance(each.type, click.Choice)
        ]
        return any(set(option.type.choices).intersection(others) for others in choices)

    def _says_nothing(self, word: str) -> bool:
        from tcprobe.question.naming import TOPICS

        return word.lower() in TOPICS

    def _decide(
        self, doubtful: Sequence[tuple[int, str, Kind, Filled]], filled: Filled, left: list[tuple[int, str]]
    ) -> None:
        """Words that could be of a name too: the name's if it means something else with them, the option's if not."""
        if (
            _begins(left) and doubtful and not self._meaning(left)
        ):  # what is wrong with the name is said of all its words
            left += [(at, text) for at, text, kind, _ in doubtful if kind.turn]
            doubtful = [one for one in doubtful if not one[2].turn]
        named = [(at, text) for at, text, kind, _ in doubtful if kind.turn < SAYS_NOTHING]
        starts = _begins(left) or any(not kind.turn for _, _, kind, _ in doubtful)  # a type alone is no name
        if named and starts and self._meaning([*left, *named]):
            left += named
            doubtful = [one for one in doubtful if one[2].turn >= SAYS_NOTHING]
        for at, text, kind, found in sorted(doubtful, key=lambda one: (one[2].turn, -one[1].count("x"), one[1])):
            without, with_it = self._meaning(left), self._meaning([*left, (at, text)])
            needed = kind.turn < SAYS_NOTHING or with_it != without
            if with_it and needed and (_begins(left) or not kind.turn):
                left.append((at, text))
            else:
                filled += found

    def _meaning(self, left: Sequence[tuple[int, str]]) -> Sequence[frozenset[str]]:
        """The ids that the words mean, name by name; nothing where a name means none."""
        from tcprobe.isa.names import resolve
        from tcprobe.question.naming import meant, split_names

        words = meant([word for _, word in sorted(left)])
        names = split_names(words) if self.names != "one" else [" ".join(words)] * bool(words)
        meanings = [answer_or_none(lambda name=name: resolve(name)) for name in names]  # type: ignore[misc]
        ids = [frozenset(row.id for row in (m.fragments or m.instructions or m.shared)) for m in meanings if m]
        return ids if len(ids) == len(names) and all(ids) else []


def _begins(left: Sequence[tuple[int, str]]) -> bool:
    """Whether words say more than an operand, so that they are a name as far as they go."""
    from tcprobe.isa.names.words import OPERANDS

    return any(word.lower() not in OPERANDS for _, word in left)


_NOISY = re.compile("of|with|in|for|tile|block|operand|matrix|warp|register|row|col|as|to|from|name|address|k")


@cache
def _parts() -> frozenset[str]:
    from tcprobe.isa import inventory
    from tcprobe.isa.names import words

    known = (part for id_ in inventory.instructions() for part in id_.lower().split("."))
    return frozenset({*known, *words.OPERANDS, *(part for part in words.APART)})


def _may_be_name(text: str) -> bool:
    """Whether each word could be a part of a name."""
    from tcprobe.isa.names import words

    plain = words.read(text).plain
    return bool(plain) and all(
        re.fullmatch(r"m[0-9]+n[0-9]+(k[0-9]+)?", word) or not _parts().isdisjoint(word.split("|")) for word in plain
    )
