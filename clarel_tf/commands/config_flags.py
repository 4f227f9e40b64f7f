"""The flags of all settings, and the config that they give."""

import typing
from collections.abc import Callable
from typing import Any

from absl import flags

from clarel_tf.commands.cli import about_flag
from clarel_tf.commands.flag_help import flag_name
from clarel_tf.config import Config, settings
from clarel_tf.errors import ClarelError
from clarel_tf.presets import DEFAULT_PRESETS, batch_for, default_preset, preset, scaled_to
from clarel_tf.storage.files import read_json


def define_setting_flags() -> None:
    """Defines one flag for each setting; None means the preset's value."""
    for _, field in settings():
        name, meaning = flag_name(field.name), field.metadata["meaning"]
        if field.metadata["choices"]:
            flags.DEFINE_enum(name, None, field.metadata["choices"], meaning)
        elif typing.get_origin(field.type) is tuple:
            flags.DEFINE_list(name, None, meaning)
        else:
            define: dict[Any, Callable[..., Any]] = {
                int: flags.DEFINE_integer,
                float: flags.DEFINE_float,
                bool: flags.DEFINE_bool,
                str: flags.DEFINE_string,
            }
            define[field.type](name, None, meaning)
        if name == "dataset_config":  # beside it in --help
            flags.DEFINE_alias("config", name)
    flags.DEFINE_string(
        "preset",
        None,
        "paper, fast or tiny (default: paper for cub and flowers, tiny for demo, and fast for your "
        "own data, with batch and steps by the number of its images)",
    )
    flags.DEFINE_string("config_file", None, "start from this config.json instead of a preset")


def config_from_flags() -> Config:
    """The config of the preset or the config file, overridden by the flags."""
    given: dict[str, Any] = {}
    for _, field in settings():
        value = flags.FLAGS[flag_name(field.name)].value
        if value is None:
            continue
        if typing.get_origin(field.type) is tuple:
            value = _integers(field.name, value)
        given[field.name] = value
    if flags.FLAGS.config_file and flags.FLAGS.preset:
        raise ClarelError("give --preset or --config_file, not both")
    if flags.FLAGS.config_file:
        with about_flag("config_file"):
            base = Config.from_dict(read_json(flags.FLAGS.config_file))
    else:
        dataset = given.get("dataset", Config.dataset)
        base = preset(flags.FLAGS.preset or default_preset(dataset))
    steps = given.get("steps", base.training.steps)
    if "warmup_steps" not in given and base.training.warmup_steps >= steps > 0:
        given["warmup_steps"] = steps // 10  # the preset's value is for more steps
    return base.override(given)


def fitted_to_data(config: Config, images: int) -> Config:
    """The config, with batch and steps by the number of training images if the user chose none.

    That holds for own data without --preset and --config_file.
    """
    told = {name for name in ("preset", "config_file", "batch_size", "steps") if _is_given(name)}
    if told & {"preset", "config_file"} or config.dataset in DEFAULT_PRESETS:
        return config
    if "batch_size" not in told:
        config = batch_for(config, images)
    return config if "steps" in told else scaled_to(config, images)


def _is_given(name: str) -> bool:
    return flags.FLAGS[name].value is not None


def _integers(name: str, items: list[str]) -> tuple[int, ...]:
    try:
        return tuple(int(item) for item in items)
    except ValueError:
        raise ClarelError(f"{name} must be integers separated by commas, not {items}") from None
