"""Serving: SavedModels of a finished run, and a client for a folder or a model server."""
