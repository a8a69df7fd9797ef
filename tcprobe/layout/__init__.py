"""Maps between slots and elements, independent of any hardware: tables, linear algebra over GF(2), CSV files.

table, grid, csv                  tables of slots: what they are, drawn, read
structure                         structure tensors
expression, arrays, runs          expressions, what arrays hold, runs of numbers
address, address_files, swizzle   address maps, files of them, swizzles and their spelling
descriptor, banks                 words that lead to shared memory; what an access costs, and banks drawn
"""
