"""The demo dataset."""
