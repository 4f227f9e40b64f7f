"""Zero-shot classification by retrieval (CLAREL) in TensorFlow and Keras.

The names below are imported on first use, so that `--help` and a bad flag need not wait for
TensorFlow.
"""

import importlib
from typing import Any

from clarel_tf import registration

__version__ = "0.1.0"

registration.register()

_HOME_OF_NAME = {
    "CaptionTower": "clarel_tf.models.caption_tower",
    "Clarel": "clarel_tf.models.clarel",
    "ClarelError": "clarel_tf.errors",
    "Config": "clarel_tf.config",
    "Ensemble": "clarel_tf.models.ensemble",
    "FeatureTower": "clarel_tf.models.feature_tower",
    "ImageTower": "clarel_tf.models.towers",
    "LossConfig": "clarel_tf.config",
    "ModelConfig": "clarel_tf.config",
    "TextTower": "clarel_tf.models.towers",
    "TrainingConfig": "clarel_tf.config",
    "build_vocabulary": "clarel_tf.models.vocabulary",
    "class_names": "clarel_tf.data.loading",
    "get_builder": "clarel_tf.data.loading",
    "load_model": "clarel_tf.models.saving",
    "load_splits": "clarel_tf.data.loading",
    "pairwise_distances_numpy": "clarel_tf.models.distances",
    "preset": "clarel_tf.presets",
    "run_experiment": "clarel_tf.experiments.experiment",
    "standard_towers": "clarel_tf.models.standard_towers",
}
__all__ = ["__version__", *sorted(_HOME_OF_NAME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF_NAME:
        raise AttributeError(f"module 'clarel_tf' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF_NAME[name]), name)


def __dir__() -> list[str]:
    return __all__
