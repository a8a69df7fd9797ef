"""What a round of a kernel's main loop takes: the path through it, a model of one SM, and the clock beside it."""
