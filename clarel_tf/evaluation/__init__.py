"""Measures of what the rule decides, and what is selected on validation data.

ZSL, u, s and H, their curves, retrieval, and what a class described by few sentences gets right.
"""
