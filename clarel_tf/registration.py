"""Registers the classes of `.keras` files with Keras, without importing Keras or TensorFlow.

Keras looks a class up by its registered name and imports only its own modules. So the names must be
registered before a file is loaded, but `import clarel_tf` must not import TensorFlow. The names are
therefore registered when Keras is imported. The modules are imported when a file needs them.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any

_MODULE_OF_CLASS = {
    "CaptionTower": "clarel_tf.models.caption_tower",
    "Clarel": "clarel_tf.models.clarel",
    "Ensemble": "clarel_tf.models.ensemble",
    "FeatureTower": "clarel_tf.models.feature_tower",
    "FusedAdam": "clarel_tf.training.optimizers",
    "FusedSGD": "clarel_tf.training.optimizers",
}


class _ImportedOnUse:
    """A placeholder in Keras's registry; importing the module of the class replaces it."""

    def __init__(self, name: str):
        self._name = name

    def from_config(self, config: dict[str, Any], *arguments: Any, **options: Any) -> Any:
        module = importlib.import_module(_MODULE_OF_CLASS[self._name])
        return getattr(module, self._name).from_config(config, *arguments, **options)


class _KerasFinder(importlib.abc.MetaPathFinder):
    """Finds Keras as Python would, and registers the names after its module has been executed."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "keras":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader  # its method is replaced below, which no type allows
            execute = loader.exec_module

            def execute_and_register(module: types.ModuleType) -> None:
                execute(module)
                sys.meta_path.remove(self)
                _register(module)

            loader.exec_module = execute_and_register
        return spec


def register() -> None:
    """Registers the names now if Keras is imported, otherwise when it is."""
    if hasattr(sys.modules.get("keras"), "saving"):
        _register(sys.modules["keras"])
    else:
        sys.meta_path.insert(0, _KerasFinder())


def _register(keras: Any) -> None:
    known = keras.saving.get_custom_objects()
    for name in _MODULE_OF_CLASS:
        known.setdefault(f"clarel_tf>{name}", _ImportedOnUse(name))
