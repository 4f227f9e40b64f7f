"""Classifies pictures: files, and folders with all pictures in them.

python classify_main.py photo.jpg folder/ --export_dir=exports/demo \\
  --new_class="snow cap: a tiny bird with a snowy crown; a small bird, white cap, brown back"

Or images of a dataset, or their features.
"""

from clarel_tf.commands.classify import run

if __name__ == "__main__":
    run()
