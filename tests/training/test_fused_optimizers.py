"""The fused optimisers against Keras's own, which spell the arithmetic out."""

import keras
import numpy as np
import pytest

from clarel_tf.config_sections import TrainingConfig
from clarel_tf.training.optimizers import make_optimizer

KERAS = {
    "sgd": lambda rate, clip: keras.optimizers.SGD(rate, momentum=0.9, clipnorm=clip),
    "adam": lambda rate, clip: keras.optimizers.Adam(rate, clipnorm=clip),
}


@pytest.mark.parametrize("clip", [1.0, 0.0])
@pytest.mark.parametrize("name", sorted(KERAS))
def test_follows_the_optimizer_of_keras(name, clip):
    # One gradient of norm 5 or so, which is clipped, and one of norm 0.05, which is not.
    rng = np.random.default_rng(0)
    start = [rng.normal(size=(4, 3)).astype("f4"), rng.normal(size=5).astype("f4")]
    settings = TrainingConfig(
        optimizer=name, learning_rate=0.01, schedule="constant", clip_norm=clip, momentum=0.9
    )
    ours, theirs = make_optimizer(settings), KERAS[name](0.01, clip or None)
    mine, others = ([keras.Variable(value) for value in start] for _ in range(2))
    for _ in range(10):
        gradients = [rng.normal(size=(4, 3)) * 1.5, rng.normal(size=5) * 0.02]
        gradients = [gradient.astype("f4") for gradient in gradients]
        ours.apply(gradients, mine)
        theirs.apply(gradients, others)
    for variable, other, before in zip(mine, others, start, strict=True):
        np.testing.assert_allclose(variable.numpy(), other.numpy(), atol=1e-6)
        assert np.abs(variable.numpy() - before).max() > 1e-3
    for state, other in zip(ours.variables, theirs.variables, strict=True):
        np.testing.assert_allclose(state.numpy(), other.numpy(), atol=1e-6)


def test_a_gradient_of_zeros_is_left_alone():
    settings = TrainingConfig(learning_rate=0.1, schedule="constant", momentum=0.0, clip_norm=1.0)
    variable = keras.Variable(np.ones(3, "f4"))
    make_optimizer(settings).apply([np.zeros(3, "f4")], [variable])
    np.testing.assert_array_equal(variable.numpy(), np.ones(3, "f4"))
