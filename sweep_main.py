"""Runs a grid of experiments, several at a time, and writes tables and figures.

python sweep_main.py --dataset=demo --grid=kappa=0,0.5,1 --grid=seed=0,1 --sweep_dir=sweeps/kappa
"""

from clarel_tf.commands.sweep import run

if __name__ == "__main__":
    run()
