"""Mangled names: what is built by the ABI's grammar is read back; labels tell all names apart, and are short."""

import string

from hypothesis import given
from hypothesis import strategies as st

from tcprobe.mangled import MOST_LABEL, demangled, labels, unmangled

NAMES = st.text(string.ascii_letters + "_", min_size=1, max_size=30)
BUILTIN = {"f": "float", "i": "int", "b": "bool", "j": "unsigned"}


def source(name):
    return f"{len(name)}{name}"


def instance(name, arguments):
    return source(name) + "I" + "".join(text for text, _ in arguments) + "E", [x for _, own in arguments for x in own]


LEAVES = st.one_of(
    st.integers(-99, 999).map(lambda n: (f"Li{f'n{-n}' if n < 0 else n}E", [str(n)])),
    st.booleans().map(lambda b: (f"Lb{b:d}E", [str(b).lower()])),
    NAMES.map(lambda name: (source(name), [name])),
    st.sampled_from(sorted(BUILTIN)).map(lambda letter: (letter, [BUILTIN[letter]])),
    st.tuples(NAMES, NAMES).map(lambda pair: (f"N{source(pair[0])}{source(pair[1])}E", [pair[1]])),
    st.just(("S1_", [])),
    st.just(("PKf", ["float"])),
)
ARGUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(NAMES, st.lists(inner, min_size=1, max_size=3)).map(lambda pair: instance(*pair)),
        st.lists(inner, max_size=3).map(
            lambda own: ("J" + "".join(text for text, _ in own) + "E", [leaf for _, leaves in own for leaf in leaves])
        ),
    ),
    max_leaves=12,
)


@given(st.lists(NAMES, min_size=1, max_size=3), st.lists(ARGUMENTS, min_size=1, max_size=4))
def test_leaves_of_an_instance_are_read_in_their_order(scopes, arguments):
    *outer, name = scopes
    text, leaves = instance(name, arguments)
    mangled = "_ZN" + "".join(map(source, outer)) + text + "EvPf"
    found = demangled(mangled)
    assert found.name.partition("<")[0] == "::".join(scopes)
    assert list(found.leaves) == leaves


@given(
    st.lists(
        st.text(max_size=20) | st.builds(lambda tail: "_ZN" + tail, st.text("0123456789INEJLbiSfgem_", max_size=60))
    )
)
def test_labels_tell_all_names_apart(names):
    """Of any text, and of what looks like mangled names."""
    found = labels(names)
    assert found.keys() == set(names)
    assert len(set(found.values())) == len(found)
    assert all(len(label) <= MOST_LABEL + 12 for label in found.values())


def test_a_name_of_nothing_but_brackets_is_read_soon():
    for name in ("_Z1f" + "I" * 100_000, "_Z1fI" + "1a" * 100_000, "_ZN" + "1a" * 50_000, "_Z1fI99999a"):
        assert len(labels([name, "g"])[name]) <= MOST_LABEL + 12
        assert unmangled(name)
