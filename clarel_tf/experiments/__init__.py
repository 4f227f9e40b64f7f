"""Whole experiments: the run folder, its phases, the test, repeats, ensembles and sweeps."""
