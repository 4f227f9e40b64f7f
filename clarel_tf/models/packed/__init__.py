"""Layers on packed captions: concatenated, without the padding of a rectangular batch.

This is where the speed of the text tower comes from.
"""
