"""Layers on packed captions: end to end, without the padding that a rectangle of token ids has.

This is where the speed of the text tower comes from.
"""
