"""What all generated code shares: legal names, who runs it, and what its comments say of the tables behind it."""
