"""An experiment on the data of conftest.py, on two logical CPUs or as one of several workers.

python distributed_run.py mirrored|mirrored_phase|multi_worker CONFIG_FILE RUN_DIR

With `mirrored_phase` it is a single phase of training, on trainval, and after it a check of two
copies of a variable that differ.
"""

import sys
from pathlib import Path

import keras
import tensorflow as tf

from clarel_tf.config import Config
from clarel_tf.errors import ClarelError
from clarel_tf.experiments.experiment import follow_experiment, run_experiment
from clarel_tf.experiments.training_phase import train_phase
from clarel_tf.storage.files import read_json
from clarel_tf.training.distributed.distribution import Distribution, mirrored, multi_worker
from clarel_tf.training.distributed.drift import drift_check
from tests.conftest import make_splits


def show_drift(distribution: Distribution) -> None:
    """Prints what is said of one variable whose second copy was changed."""
    with distribution.strategy.scope():
        variables = [keras.Variable([1.0, 2.0], name="one"), keras.Variable([3], name="two")]
    check = drift_check(variables, distribution)
    check(2)
    print("no drift at step 2")
    variables[0]._value.values[1].assign([1.0, 2.1])
    try:
        check(4)
    except ClarelError as error:
        print(error)


def main(kind: str, config_file: str, run_dir: str) -> None:
    config = Config.from_dict(read_json(config_file))
    if kind != "multi_worker":
        cpu = tf.config.list_physical_devices("CPU")[0]
        half = tf.config.LogicalDeviceConfiguration()
        tf.config.set_logical_device_configuration(cpu, [half, half])
    distribution = multi_worker() if kind == "multi_worker" else mirrored()
    print(distribution)
    if kind == "mirrored_phase":
        train_phase(config, make_splits()["trainval"], Path(run_dir), "phase", distribution)
        show_drift(distribution)
    elif distribution.is_chief:
        run_experiment(config, make_splits(), run_dir, distribution=distribution, final="all")
    else:
        follow_experiment(config, make_splits(), distribution, final="all")
    distribution.finish()


if __name__ == "__main__":
    main(*sys.argv[1:])
