"""What is trained if nothing is said about it: the preset by dataset, the steps by its size."""

import pytest
from absl import flags

from clarel_tf.commands import config_flags
from clarel_tf.config import Config
from clarel_tf.presets import preset


def config_of(*arguments: str, images: int = 1000) -> Config:
    """The config of these flags for so many training images."""
    known = set(flags.FLAGS)
    try:
        config_flags.define_setting_flags()
        flags.FLAGS(["train_main.py", *arguments])
        return config_flags.fitted_to_data(config_flags.config_from_flags(), images)
    finally:
        for name in set(flags.FLAGS) - known:
            delattr(flags.FLAGS, name)
        flags.FLAGS.unparse_flags()


@pytest.mark.parametrize(
    ("dataset", "name"), [("demo", "tiny"), ("cub", "paper"), ("flowers", "paper")]
)
def test_public_data_has_a_preset_as_it_is(dataset, name):
    assert config_of(f"--dataset={dataset}") == preset(name).override({"dataset": dataset})


@pytest.mark.parametrize(
    # 240 passes in batches of 128: 1.875 steps for each image.
    ("images", "steps"),
    [(1000, 1875), (128, 1000), (3753, 7037), (10**6, 30_000)],
)
def test_own_data_is_trained_with_fast_and_steps_by_its_size(images, steps):
    expected = preset("fast").override({"dataset": "pairs", "steps": steps})
    assert config_of("--dataset=pairs", images=images) == expected


@pytest.mark.parametrize(
    # 240 passes: with 100 images 24,000 in batches of 64 are 375, below the least steps.
    ("images", "batch", "steps"),
    [(127, 64, 1000), (78, 64, 1000), (64, 64, 1000), (9, 8, 1000), (1, 1, 1000)],
)
def test_few_images_get_a_batch_that_they_can_fill(images, batch, steps):
    values = {"dataset": "pairs", "steps": steps, "batch_size": batch}
    expected = preset("fast").override(values)
    assert config_of("--dataset=pairs", images=images) == expected


def test_what_is_said_counts(tmp_path):
    assert config_of("--dataset=pairs", "--steps=70", "--warmup_steps=7").training.steps == 70
    assert config_of("--dataset=pairs", "--preset=fast").training.steps == 7000
    assert config_of("--dataset=pairs", "--preset=paper").training == Config().training
    assert config_of("--dataset=pairs", "--batch_size=64").training.steps == 3750
    assert config_of("--dataset=pairs", "--batch_size=64", images=9).training.batch_size == 64
    assert config_of("--dataset=pairs", "--preset=fast", images=9).training.batch_size == 128
    path = tmp_path / "config.json"
    path.write_text('{"training": {"steps": 12}}')
    assert config_of("--dataset=pairs", f"--config_file={path}").training.steps == 12
