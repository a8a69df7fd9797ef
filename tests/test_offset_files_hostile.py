"""Files of offsets from anybody: any text, spoiled print-outs and vast ones are read or refused, soon."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from printouts import DATA, PLACE, PRINTED
from sampling import examples

from tcprobe.errors import DataError, UsageError
from tcprobe.fit.swizzle import fit_address
from tcprobe.layout.address_files import read_address_map

pytestmark = pytest.mark.full  # its sample: files that are refused in test_offset_files.py

ALPHABET = st.sampled_from(
    [*"0123456789(),.|- \n\t#/$\\[]{}x", "..", "--extent=", "03_visualize_layout ", "(0..7, 0)|"]
)


def read_or_refusal(path):
    """(address map, "") of a file, or (None, the message)."""
    try:
        return read_address_map(path).address, ""
    except (DataError, UsageError) as error:
        return None, str(error)


@examples(300)
@given(st.lists(ALPHABET, max_size=120).map("".join))
def test_any_text_is_read_or_refused(tmp_path, text):
    (tmp_path / "fuzz").write_text(text)
    address, refusal = read_or_refusal(tmp_path / "fuzz")
    found = fit_address(address) if address else None
    assert refusal or found is None or np.array_equal(found(address.first, address.second), address.offsets)


@examples(150)
@given(st.sampled_from(PRINTED), st.data())
def test_spoiled_print_outs_are_read_or_refused(tmp_path, name, data):
    """Characters changed, dropped or put in: what still reads says where each element stands, once."""
    text = list((DATA / name).read_text())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at] = data.draw(st.sampled_from(["", "0", "1", "|", "(", ")", ",", ".", " ", "\n", "-", "x"]))
    (tmp_path / "spoiled").write_text("".join(text))
    address, refusal = read_or_refusal(tmp_path / "spoiled")
    if address:
        assert len(set(zip(address.first.tolist(), address.second.tolist(), strict=True))) == address.cells
    else:
        assert PLACE.search(refusal) or "no element" in refusal or "nothing" in refusal


@pytest.mark.parametrize(
    "text",
    [
        "(0..999999, 0)|" * 100_000,
        "03_visualize_layout x --vectorize=1000000 --output-shape=1000000,1\n" + "|" * 100_000,
        "|" * 3_000_000,
        "(0..400000, 0)" * 10_000,
        "(0..400000, 0)|" + "|" * 500_000,
        " " * 3_000_000 + "(0, 0)",
        "(0, 0)" + " " * 1_000_000 + "x",
        "0 " * 4_000_000,
        "0\n" * 2_000_000,
        "\\\n" * 300_000,
        "(" * 1_000_000,
        ",".join("0" * 200_000) + "\n" + "0\n" * 200_000,
    ],
    ids=range(12),
)
def test_hostile_sizes_end_soon(text, write):
    read_or_refusal(write(text))


def test_a_file_of_any_size_is_bounded(write):
    with pytest.raises(DataError, match="at most"):
        read_address_map(write("0 1\n" * 3_000_000))
