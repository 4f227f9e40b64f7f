"""Datasets: features of an example, splits in memory, validation protocols.

`zero_shot/` builds CUB and Flowers from the public files, `pairs/` builds the user's own data. The
TFDS builders themselves are in `datasets/`.
"""
