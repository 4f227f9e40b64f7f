"""Extracts the features of a folder of photographs.

python extract_main.py --images=photos --output=features.npz
"""

from clarel_tf.commands.extract import run

if __name__ == "__main__":
    run()
