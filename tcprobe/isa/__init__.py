"""What is stated: archs, element types, instructions and their operands, and the rows that list them.

arch, gpus, target, peaks                    compute capabilities and what PTX targets they run
operand, fragment, instruction, multiply     what a form is made of
dtypes, forms                                types, forms made on demand
bit_fields                                   words of bits, field by field: instruction descriptor, zero-column mask
shared_memory, tensor_map                    accesses to shared memory, numbers of cuda.h
rows, inventory, names                       all forms: by file, gathered, and by what people call them
"""
