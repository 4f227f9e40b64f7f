"""Exports a finished run as SavedModels for TensorFlow Serving.

python export_main.py --run_dir=runs/demo --export_dir=exports/demo
"""

from clarel_tf.commands.export import run

if __name__ == "__main__":
    run()
