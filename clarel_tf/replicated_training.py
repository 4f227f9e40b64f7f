"""Training steps that several replicas take together."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras

from clarel_tf.config import TrainingConfig
from clarel_tf.distribution import Distribution
from clarel_tf.model import Batch, Clarel
from clarel_tf.optimization import make_optimizer


class ReplicatedModel:
    """A twin of a model, with a copy of each variable on each device.

    The model itself stays an ordinary one: evaluation, export and checkpoints need not know.
    """

    def __init__(self, model: Clarel, settings: TrainingConfig, distribution: Distribution):
        """`model`: compiled and built; that of the chief is what all workers begin with."""
        self.model, self._distribution = model, distribution
        with distribution.strategy.scope():
            self.twin = Clarel.from_config(model.get_config())
            self.twin.compile(optimizer=make_optimizer(settings), jit_compile=False)
            self.twin.optimizer.build(self.twin.trainable_variables)
        values = distribution.from_chief([v.numpy() for v in _state(model)])
        for variable, value in zip(_state(self.twin), values, strict=True):
            variable.assign(value)

    def fit(self, batches: Iterable[Batch], callbacks: Sequence[keras.callbacks.Callback]) -> None:
        """One step for each batch, as `keras.Model.fit` would take it; every replica has all rows.

        Keras's own loop would split batches by itself, and counts on one process.
        """
        step = self._distribution.compiled(self.twin.train_step)
        for callback in callbacks:
            callback.set_model(self.twin)
            callback.on_train_begin()
        for number, batch in enumerate(batches):
            logs = step(batch)
            logs = {name: self._distribution.local(value) for name, value in logs.items()}
            for callback in callbacks:
                callback.on_train_batch_end(number, logs)
        self.bring_home()

    def bring_home(self) -> None:
        """Gives the model what the twin has learned."""
        for own, learned in zip(_state(self.model), _state(self.twin), strict=True):
            own.assign(learned.numpy())

    def brought_home_before(self, look: Callable[[], Any]) -> Callable[[], Any]:
        """`look`, for a function that looks at the model while the twin is trained."""

        def look_at_home() -> Any:
            self.bring_home()
            return look()

        return look_at_home


def _state(model: Clarel) -> list[keras.Variable]:
    return [*model.variables, *model.optimizer.variables]
