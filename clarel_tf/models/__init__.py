"""The model: vocabulary, towers, losses, and the classes `Clarel` and `Ensemble`.

The modules work on arrays and tensors and do not depend on datasets or run folders.
"""
