"""Layouts from machine code: a probe is assembled for any arch and disassembled; a small interpreter then runs it for
the 32 lanes of a warp, on the memory images that a GPU would get.

    toolchain, cubin, decode, elf              from PTX to code, line by line
    image, code_files, matrix_code             untrusted files, and matrix instructions in them
    machine, opcodes, emulation,
    tensor_product                             registers, memory, and a function for each opcode
    copies, moves                              layouts of what moves data
    tensor, product_check, evidence, derive    layouts of multiplies
    lowering                                   what instructions become

What is not modelled exactly is refused by name (`UnreadError`), never guessed.
"""
