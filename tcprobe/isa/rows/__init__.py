"""A module with INSTRUCTIONS for related families, and tables of their forms: adding a form is a line of a table.

wmma, mma, moves, wgmma, tcgen05     what a line of the table of that name means
"""
