"""Zero-shot classification by retrieval (CLAREL) in TensorFlow and Keras.

The names below are imported on first use, so that `--help` and a wrong flag are answered without
importing TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

from clarel_tf import registration

if TYPE_CHECKING:
    from clarel_tf.config import Config as Config
    from clarel_tf.config_sections import LossConfig as LossConfig
    from clarel_tf.config_sections import ModelConfig as ModelConfig
    from clarel_tf.config_sections import TrainingConfig as TrainingConfig
    from clarel_tf.data.loading import class_names as class_names
    from clarel_tf.data.loading import get_builder as get_builder
    from clarel_tf.data.loading import load_splits as load_splits
    from clarel_tf.data.split import Split as Split
    from clarel_tf.errors import ClarelError as ClarelError
    from clarel_tf.evaluation.records import Results as Results
    from clarel_tf.experiments.experiment import run_experiment as run_experiment
    from clarel_tf.experiments.run_folder import RunFolder as RunFolder
    from clarel_tf.models.caption_tower import CaptionTower as CaptionTower
    from clarel_tf.models.clarel import Clarel as Clarel
    from clarel_tf.models.distances import pairwise_distances_numpy as pairwise_distances_numpy
    from clarel_tf.models.ensemble import Ensemble as Ensemble
    from clarel_tf.models.feature_tower import FeatureTower as FeatureTower
    from clarel_tf.models.saving import load_model as load_model
    from clarel_tf.models.standard_towers import standard_towers as standard_towers
    from clarel_tf.models.towers import ImageTower as ImageTower
    from clarel_tf.models.towers import TextTower as TextTower
    from clarel_tf.models.vocabulary import build_vocabulary as build_vocabulary
    from clarel_tf.presets import preset as preset
    from clarel_tf.serving.calls import ServingError as ServingError
    from clarel_tf.serving.client import ServingClient as ServingClient
    from clarel_tf.serving.client import connect as connect
    from clarel_tf.serving.export import export_run as export_run
    from clarel_tf.serving.local import LocalTransport as LocalTransport

__version__ = "0.2.0"

registration.register()

_HOME_OF_NAME = {
    "CaptionTower": "clarel_tf.models.caption_tower",
    "Clarel": "clarel_tf.models.clarel",
    "ClarelError": "clarel_tf.errors",
    "Config": "clarel_tf.config",
    "Ensemble": "clarel_tf.models.ensemble",
    "FeatureTower": "clarel_tf.models.feature_tower",
    "ImageTower": "clarel_tf.models.towers",
    "LocalTransport": "clarel_tf.serving.local",
    "LossConfig": "clarel_tf.config_sections",
    "ModelConfig": "clarel_tf.config_sections",
    "Results": "clarel_tf.evaluation.records",
    "RunFolder": "clarel_tf.experiments.run_folder",
    "ServingClient": "clarel_tf.serving.client",
    "ServingError": "clarel_tf.serving.calls",
    "Split": "clarel_tf.data.split",
    "TextTower": "clarel_tf.models.towers",
    "TrainingConfig": "clarel_tf.config_sections",
    "build_vocabulary": "clarel_tf.models.vocabulary",
    "class_names": "clarel_tf.data.loading",
    "connect": "clarel_tf.serving.client",
    "export_run": "clarel_tf.serving.export",
    "get_builder": "clarel_tf.data.loading",
    "load_model": "clarel_tf.models.saving",
    "load_splits": "clarel_tf.data.loading",
    "pairwise_distances_numpy": "clarel_tf.models.distances",
    "preset": "clarel_tf.presets",
    "run_experiment": "clarel_tf.experiments.experiment",
    "standard_towers": "clarel_tf.models.standard_towers",
}
__all__ = [
    "CaptionTower",
    "Clarel",
    "ClarelError",
    "Config",
    "Ensemble",
    "FeatureTower",
    "ImageTower",
    "LocalTransport",
    "LossConfig",
    "ModelConfig",
    "Results",
    "RunFolder",
    "ServingClient",
    "ServingError",
    "Split",
    "TextTower",
    "TrainingConfig",
    "__version__",
    "build_vocabulary",
    "class_names",
    "connect",
    "export_run",
    "get_builder",
    "load_model",
    "load_splits",
    "pairwise_distances_numpy",
    "preset",
    "run_experiment",
    "standard_towers",
]


def _imported(name: str) -> Any:
    if name not in _HOME_OF_NAME:
        raise AttributeError(f"module 'clarel_tf' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF_NAME[name]), name)


if not TYPE_CHECKING:  # or a type checker would believe in every name
    __getattr__ = _imported


def __dir__() -> list[str]:
    return __all__
