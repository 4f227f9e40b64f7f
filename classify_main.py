"""Classifies images with an exported classifier, in a folder or on a model server.

python classify_main.py --export_dir=exports/demo --dataset=demo --image_ids=demo_07000 \\
  --new_class="cardinal: a small red bird; a bird with a red crown"
"""

from clarel_tf.commands.classify import run

if __name__ == "__main__":
    run()
