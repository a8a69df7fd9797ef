"""What all generated code shares: legal names, who runs it, and what its comments say of the tables behind it.

names, scope                legal names, namespaces
cuda, call, multiply        device functions
dequantize                  from stored codes to elements
origin                      comments on the tables behind code
"""
