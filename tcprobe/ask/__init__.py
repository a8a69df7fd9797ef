"""Questions answered from tables: who holds what, what feeds what, comparing, converting.

show, where, trace, list, why_not                   questions of what there is, and where it is
operand, registers, shared_operand, tensor_memory,
trace_tensor_memory, scales                         an operand in its place, and what feeds what
describe, saved, absent                             a table in words and as plain data, or why there is none
compare, diagnose,
confidence, undocumented                            what others state, and how sure a table is
banks, swizzle, tensormap                           shared memory
descriptor, tcgen05_descriptor                      descriptors
numeric*                                            arithmetic
cost, lower, plan_cost                              cost
diff, read_file                                     archs, and code in files
path, load, convert, reduce                         plans and code between layouts
"""
