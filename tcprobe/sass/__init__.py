"""Machine code: read from files, disassembled, and followed.

    toolchain, cubin                           from PTX to the code of a probe
    elf, image, code_files, source_lines       untrusted files, and what they say of their functions
    matrix_code                                matrix instructions in large amounts of code
    disassemble, decode, widths, registers     texts of instructions, what they say, the registers that they name
    kernel, flow                               functions as graphs; facts that hold at every instruction
    meaning                                    what an instruction computes, over a domain
    lanes, reader, sums                        domains: lanes with unknown bits, sums
    interpreter, dependence, state, frame, threads
                                               what an instruction leaves in registers and on the stack
    addresses, requests                        where loads and stores reach, and what that costs
    iterations                                 loops taken apart, so that a ring's stages are numbers
    shared_bytes, barriers                     in these, the bytes of shared memory that are read and written, and the
                                               barriers at which threads arrive and wait
    machine, opcodes, emulation, tensor_product
                                               a run of a probe on numbers; what its opcodes do but compute, floats
    copies, moves                              layouts of what moves data
    tensor, product_check, evidence, derive    layouts of multiplies
    lowering                                   what instructions become

A probe is assembled for any arch and disassembled; a small interpreter runs it on the memory images that a GPU would
get. What is not modelled exactly is refused by name (`UnreadError`), never guessed.
"""
