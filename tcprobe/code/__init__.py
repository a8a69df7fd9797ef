"""What all generated code shares: legal names, who runs it, and what its comments say of the tables behind it.

names                 legal names, namespaces
cuda                  device functions, and what comments say of the tables behind code
dequantize            from stored codes to elements
"""
