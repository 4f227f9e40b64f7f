"""Files of trained models in a fresh process, read by Keras itself."""

import json
import subprocess
import sys

import pytest

from clarel_tf.config_sections import ModelConfig, TrainingConfig
from clarel_tf.models.clarel import Clarel
from clarel_tf.models.ensemble import Ensemble
from clarel_tf.models.standard_towers import standard_towers
from clarel_tf.training.optimizers import make_optimizer

SMALL = ModelConfig(embedding_size=6, word_size=4, filters=(4, 4), lstm_units=3, max_tokens=5)
CODE = """
import json, sys
for module in sys.argv[1].split(","):
    __import__(module)
    if module == "clarel_tf" and sys.argv[1].startswith(module):
        assert not {"keras", "tensorflow"} & set(sys.modules), "not cheap to import"
import keras
models = [keras.saving.load_model(path) for path in sys.argv[2:]]
print(json.dumps([[type(m).__name__, type(getattr(m, "optimizer", None)).__name__,
    float(m.embed_texts(["a red bird"]).sum())] for m in models]))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """{path: model} of every kind of file."""
    models = {}
    for optimizer in ("sgd", "adam"):
        model = Clarel(*standard_towers(SMALL, ["a", "red", "bird"], 3), num_classes=2)
        model.compile(make_optimizer(TrainingConfig(optimizer=optimizer)), jit_compile=False)
        model.optimizer.build(model.trainable_variables)
        models[optimizer] = model
    models["ensemble"] = Ensemble(list(models.values()))
    folder = tmp_path_factory.mktemp("saved")
    for name, model in models.items():
        model.save(folder / f"{name}.keras")
    return {folder / f"{name}.keras": model for name, model in models.items()}


@pytest.mark.parametrize(
    "order",
    [
        "clarel_tf,tensorflow",
        *(pytest.param(o, marks=pytest.mark.slow) for o in ("clarel_tf,keras", "keras,clarel_tf")),
    ],
)
def test_keras_alone_loads_every_file(saved, order):
    command = [sys.executable, "-c", CODE, order, *map(str, saved)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert [kinds[:2] for kinds in found] == [
        ["Clarel", "FusedSGD"],
        ["Clarel", "FusedAdam"],
        ["Ensemble", "NoneType"],
    ]
    sums = [float(model.embed_texts(["a red bird"]).sum()) for model in saved.values()]
    assert [kinds[2] for kinds in found] == pytest.approx(sums, abs=1e-5)
