"""A user's own data: photographs or image features, with classes and sentences."""
