"""Evaluates a finished run again, without training, and writes its report again.

python evaluate_main.py --run_dir=runs/demo
"""

from clarel_tf.commands.evaluate import run

if __name__ == "__main__":
    run()
