"""Training: batches, batch sampler, optimisers, checkpoints, and a loop that resumes.

`distributed/` trains on several devices or machines.
"""
