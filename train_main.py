"""Trains CLAREL, chooses alpha on validation, trains on trainval and tests once.

python train_main.py --dataset=demo
"""

from clarel_tf.commands.train import run

if __name__ == "__main__":
    run()
