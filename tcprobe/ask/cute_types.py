"""What CuTe calls PTX's types in C++; CUTLASS has the same names in its own namespace."""

CUTE_TYPES = {
    "f16": "cute::half_t",
    "bf16": "cute::bfloat16_t",
    "tf32": "cute::tfloat32_t",
    "f32": "float",
    "f64": "double",
    "e4m3": "cute::float_e4m3_t",
    "e5m2": "cute::float_e5m2_t",
    "s8": "int8_t",
    "u8": "uint8_t",
    "s32": "int32_t",
}
