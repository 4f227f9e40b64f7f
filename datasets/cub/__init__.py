"""The CUB dataset with captions and zero-shot splits."""
