"""The Flowers dataset with captions and zero-shot splits."""
