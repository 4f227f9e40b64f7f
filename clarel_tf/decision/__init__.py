"""The decision: class prototypes, and the rule that gives an image to a class.

Evaluation and serving both use the rule from here; it is stated in `rule.py` and nowhere else.
"""
