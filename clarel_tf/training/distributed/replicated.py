"""Training steps that several replicas take together."""

from collections.abc import Iterable, Sequence

import keras
import tensorflow as tf

from clarel_tf.config_sections import TrainingConfig
from clarel_tf.models.clarel import Batch, Clarel
from clarel_tf.training.distributed.distribution import Distribution
from clarel_tf.training.distributed.drift import drift_check
from clarel_tf.training.optimizers import make_optimizer


class ReplicatedModel:
    """A twin of a model, with a copy of each variable on each device.

    The original model is unchanged, so evaluation, export and checkpoints work as usual.
    """

    def __init__(self, model: Clarel, settings: TrainingConfig, distribution: Distribution):
        """`model`: compiled and built; all workers start from the chief's weights."""
        self.model, self._settings, self._distribution = model, settings, distribution
        with distribution.strategy.scope():
            self._twin = Clarel.from_config(model.get_config())
            self._twin.compile(optimizer=make_optimizer(settings), jit_compile=False)
            self._twin.optimizer.build(self._twin.trainable_variables)
        values = distribution.from_chief([v.numpy() for v in _state(model)])
        for variable, value in zip(_state(self._twin), values, strict=True):
            variable.assign(value)

    def fit(
        self,
        batches: Iterable[Batch],
        callbacks: Sequence[keras.callbacks.Callback],
        first_step: int = 0,
    ) -> None:
        """Takes one step for each batch, like `keras.Model.fit`; every replica gets all rows.

        Keras's own loop would split the batches and assumes one process. Before each checkpoint,
        the replicas of all workers compare their weights.

        Args:
          first_step: number of steps already taken.
        """
        learn = self._distribution.compiled(self._twin.learn)
        # On the original model: a metric of the twin would be summed over workers at each reset.
        update_averages = tf.function(self.model.update_averages)
        check_drift = drift_check(_state(self._twin), self._distribution)
        for callback in callbacks:
            callback.set_model(self.model)
            callback.on_train_begin()
        for number, batch in enumerate(batches):
            values = learn(batch)
            step = first_step + number + 1
            if step == self._settings.steps or step % self._settings.checkpoint_every == 0:
                check_drift(step)
            values = {name: self._distribution.local(value) for name, value in values.items()}
            logs = update_averages(values, batch)
            for callback in callbacks:
                callback.on_train_batch_end(number, logs)
        self.bring_home()

    def bring_home(self) -> None:
        """Copies the weights of the twin to the model."""
        for own, learned in zip(_state(self.model), _state(self._twin), strict=True):
            own.assign(learned.numpy())


def _state(model: Clarel) -> list[keras.Variable]:
    return [*model.variables, *model.optimizer.variables]
