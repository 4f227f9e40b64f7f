"""One step of a linear model on two logical CPUs, and a check of two copies that differ.

python mirrored_rows.py IN.npz OUT.npz

IN has the rows `x` and the matrices `w` and `v`. The loss is of the whole batch: a row of one half
meets rows of the other half. OUT has what each replica saw, and the sums of the gradients.
"""

import sys

import keras
import numpy as np
import tensorflow as tf

from clarel_tf.errors import ClarelError
from clarel_tf.models.replicas import gather_rows, own_rows, replica_count, sum_over_replicas
from clarel_tf.training.distributed.distribution import Distribution, mirrored
from clarel_tf.training.distributed.drift import drift_check


def step(x: tf.Tensor, w: tf.Tensor, v: tf.Tensor) -> dict[str, tf.Tensor]:
    with tf.GradientTape() as tape:
        tape.watch([w, v])
        own = own_rows(x)
        images, texts = gather_rows((own @ w, own @ v))
        loss = tf.reduce_sum((images - tf.reverse(texts, [0])) ** 2)
        shared = loss / replica_count()
    dw, dv = sum_over_replicas(tape.gradient(shared, [w, v]))
    return {"own": own, "images": images, "texts": texts, "loss": loss, "dw": dw, "dv": dv}


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


def main(given: str, found: str) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    half = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(cpu, [half, half])
    distribution = mirrored()
    print(distribution)
    with np.load(given, allow_pickle=False) as file:
        arguments = tuple(tf.constant(file[name]) for name in "xwv")
    both = tf.function(lambda: distribution.strategy.run(step, arguments))()
    results = {
        f"{name}_{number}": value.numpy()
        for name, values in both.items()
        for number, value in enumerate(distribution.strategy.experimental_local_results(values))
    }
    np.savez(found, **results)
    show_drift(distribution)


if __name__ == "__main__":
    main(*sys.argv[1:])
