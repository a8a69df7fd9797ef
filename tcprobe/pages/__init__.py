"""Pages of a results folder, made from its tables alone.

overview, runs, fragments, descriptors     the overview and its parts
changes, compilers, costs, errata, lowering, numerics,
tensor_memory, undocumented                a page each
tables                                     Markdown
site                                       the site
"""
