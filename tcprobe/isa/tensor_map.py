"""The numbers of cuda.h that tensor maps are made of: CUtensorMapDataType and the modes of cuTensorMapEncodeTiled."""

from __future__ import annotations

from collections.abc import Mapping

DATA_TYPES: Mapping[str, tuple[int, int]] = {  # name -> number, bytes of an element
    "UINT8": (0, 1),
    "UINT16": (1, 2),
    "UINT32": (2, 4),
    "INT32": (3, 4),
    "UINT64": (4, 8),
    "INT64": (5, 8),
    "FLOAT16": (6, 2),
    "FLOAT32": (7, 4),
    "FLOAT64": (8, 8),
    "BFLOAT16": (9, 2),
    "FLOAT32_FTZ": (10, 4),
    "TFLOAT32": (11, 4),
    "TFLOAT32_FTZ": (12, 4),
}
# by PTX's types; bytes of others are taken as they are
DATA_TYPE_OF: Mapping[str, str] = {
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "f32": "FLOAT32",
    "tf32": "TFLOAT32",
    "f64": "FLOAT64",
    "s32": "INT32",
    "s64": "INT64",
    "u8": "UINT8",
    "s8": "UINT8",
    "b8": "UINT8",
    "e4m3": "UINT8",
    "e5m2": "UINT8",
    "u16": "UINT16",
    "s16": "UINT16",
    "b16": "UINT16",
    "u32": "UINT32",
    "b32": "UINT32",
    "u64": "UINT64",
    "b64": "UINT64",
}
PACKED = {"16U4_ALIGN8B": 13, "16U4_ALIGN16B": 14, "16U6_ALIGN16B": 15}  # from sm_100 on
PACKED_BITS = {13: (4, 4), 14: (4, 8), 15: (6, 8)}  # of an element in global memory; in shared, with its part of a gap
PADDED = (14, 15)  # 16 elements stand in 16 bytes of shared memory, with a gap
INTERLEAVES = {"NONE": 0, "16B": 1, "32B": 2}
SWIZZLES = {
    "NONE": 0,
    "32B": 1,
    "64B": 2,
    "128B": 3,
    "128B_ATOM_32B": 4,
    "128B_ATOM_32B_FLIP_8B": 5,
    "128B_ATOM_64B": 6,
}
SPANS = {1: 32, 2: 64, 3: 128}  # bytes of a row of a swizzle's pattern
EVERY_SPAN = SPANS | {4: 128, 5: 128, 6: 128}  # with the modes that sm_100 added
PERIODS = {1: 256, 2: 512, 3: 1024, 4: 512, 5: 512, 6: 256}  # bytes after which a pattern repeats
SINCE = 100  # number of the first arch whose driver takes packed types and other atoms than 16 bytes
PROMOTIONS = {"NONE": 0, "L2_64B": 1, "L2_128B": 2, "L2_256B": 3}
FILLS = {"NONE": 0, "NAN_REQUEST_ZERO_FMA": 1}
