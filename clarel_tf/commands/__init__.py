"""The programs: flags in, one call, files out. Each `*_main.py` runs one of them."""
