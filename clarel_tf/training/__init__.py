"""Training: which instances meet in a batch, optimisers, checkpoints, and the loop that resumes.

`distributed/` has what several devices or machines need to train as one.
"""
