"""Pages of a results folder, made from its tables alone.

overview                  all pages of a folder: overview, what changes between archs, errata, undocumented selectors
machine_code, numbers,
tensor_memory             lowering and compilers; cost and numerics; tcgen05
orders                    in which order programs sum
tables                    Markdown
site                      the site
"""
