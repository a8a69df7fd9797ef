"""What is stated: archs, element types, instructions and their operands, and the rows that list them."""
