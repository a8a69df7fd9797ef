"""Maps between slots and elements, independent of any hardware: tables, linear algebra over GF(2), CSV files.

table, space, grid, ranges                  tables of slots
gf2, expression, arrays, spelling           linear algebra, expressions, arrays, how things are written
address, addressfile, offsets, printout,
swizzle                                     address maps, and files of them
descriptor, tcgen05_descriptor              words that lead to shared memory
banks, source_tags                          what an access costs
structure, structure_hash, predicted        structure tensors
csv, draw, glance, bankdraw, cell_runs      tables from elsewhere, and drawn
"""
