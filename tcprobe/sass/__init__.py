"""Layouts from machine code: a probe is assembled for any arch and disassembled; a small interpreter then runs it for
the 32 lanes of a warp, on the memory images that a GPU would get.

    toolchain, ptxas, cubin, decode             from PTX to code, line by line
    elf, fatbin, image, source_lines            what files of code hold
    encodings, same_opcode, matrix_code         opcodes by their bits
    machine, registry, opcodes, arithmetic,
    emulation, tensor_product                   registers, memory, and a function for each opcode
    copies, moves, move_trace                   layouts of what moves data
    tensor, product_run, product_check,
    evidence, derive, crosscheck                layouts of multiplies
    lowering, loops                             what instructions become, and timed loops

What is not modelled exactly is refused by name (`UnreadError`), never guessed.
"""
