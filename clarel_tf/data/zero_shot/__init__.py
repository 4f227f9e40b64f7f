"""Datasets with the public zero-shot splits, CUB and Flowers, from their public files."""
