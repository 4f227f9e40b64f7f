"""A user's own data: a table of images, classes and captions, and image features."""
