"""Datasets: what an example looks like, reading a split into memory, and the protocols of its use.

`zero_shot/` builds CUB and Flowers from the public files, `pairs/` a user's own data. The TFDS
builders themselves are in `datasets/`.
"""
