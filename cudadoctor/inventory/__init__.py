"""Facts of several tools about one thing become that thing: the rungs of the ladder, the GPUs. Pure."""
