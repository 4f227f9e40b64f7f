"""An experiment on the data of conftest.py, on two logical CPUs or as one of several workers.

python distributed_run.py mirrored|multi_worker CONFIG_FILE RUN_DIR
"""

import sys

import tensorflow as tf

from clarel_tf.config import Config
from clarel_tf.experiments.experiment import follow_experiment, run_experiment
from clarel_tf.storage.files import read_json
from clarel_tf.training.distributed.distribution import mirrored, multi_worker
from tests.conftest import make_splits


def main(kind: str, config_file: str, run_dir: str) -> None:
    config = Config.from_dict(read_json(config_file))
    if kind != "multi_worker":
        cpu = tf.config.list_physical_devices("CPU")[0]
        half = tf.config.LogicalDeviceConfiguration()
        tf.config.set_logical_device_configuration(cpu, [half, half])
    distribution = multi_worker() if kind == "multi_worker" else mirrored()
    print(distribution)
    if distribution.is_chief:
        run_experiment(config, make_splits(), run_dir, distribution=distribution, final="all")
    else:
        follow_experiment(config, make_splits(), distribution, final="all")
    distribution.finish()


if __name__ == "__main__":
    main(*sys.argv[1:])
