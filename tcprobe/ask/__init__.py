"""Questions answered from tables: who holds what, what feeds what, comparing, converting.

trace, describe, why, saved                         a table: who holds what, and what it rests on
compare, diagnose, diagnosis,
confidence, table_confidence, undocumented          what others state, and how sure a table is
tile, bank_*, propose, swizzle, behind, tensormap  shared memory
descriptor, tcgen05_descriptor                      descriptors
tensor_memory*, scales, trace_shared,
trace_tensor_memory                                 operands that are in no register
numeric*                                            arithmetic
cost, lower, plan_cost, tile_*        cost
absent, diff,
read_file                                           archs, and code in files
path, load*, convert, reduce, repack                plans and code between layouts
"""
