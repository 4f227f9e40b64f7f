"""The programs: flags in, one call, files out. Each `*_main.py` is a door to one of them."""
