"""The model: vocabulary, towers, losses, and the classes `Clarel` and `Ensemble`.

Everything here works on arrays and tensors; it knows neither datasets nor run folders.
"""
