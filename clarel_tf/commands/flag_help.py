"""The help text of a program: its flags in sections, each with its meaning and default."""

import textwrap
from typing import Any

from absl import flags

from clarel_tf.config import settings

_TITLES = {"": "Experiment", "model": "Model", "loss": "Loss", "training": "Training"}


def flag_name(setting: str) -> str:
    """The flag of a setting: --lambda for `lambda_`, since `lambda` is a Python keyword."""
    return setting.rstrip("_")


def help_text(about: str) -> str:
    """The help text: flags of the program first, then those of each section of settings."""
    has_settings = "preset" in flags.FLAGS
    fields = {flag_name(field.name): (section, field) for section, field in settings()}
    groups: dict[str, list[str]] = {title: [] for title in ("Program", *_TITLES.values())}
    for name in flags.FLAGS:
        flag, default, title = flags.FLAGS[name], flags.FLAGS[name].default, "Program"
        if has_settings and name in fields:
            section, field = fields[name]
            default, title = field.default, _TITLES[section]
        elif has_settings and name == "config":
            title = _TITLES[""]
        elif _is_foreign(name):
            continue
        groups[title].append(_flag_help(name, flag, default))
    body = [f"{title}\n" + "\n".join(rows) for title, rows in groups.items() if rows]
    if has_settings:
        about += (
            " Defaults in brackets are the paper's. A preset changes some of them. The default "
            "preset is 'paper' for cub and flowers, 'tiny' for demo, and 'fast' for other data."
        )
    return "\n\n".join([textwrap.fill(about, 96), *body])


def _is_foreign(name: str) -> bool:
    module = flags.FLAGS.find_module_defining_flag(name) or ""
    return module.startswith("absl")


def _flag_help(name: str, flag: flags.Flag, default: Any) -> str:
    if isinstance(default, tuple):
        default = ",".join(map(str, default))
    if isinstance(default, bool):
        default = str(default).lower()
    shown = "" if default in (None, "", []) else f" [{default}]"
    meaning = " ".join(flag.help.split()).removesuffix(
        "; repeat this option to specify a list of values"
    )
    text = textwrap.fill(f"{meaning}{shown}", 68)
    return textwrap.indent(text, " " * 28).replace(" " * 28, f"  --{name:<24}", 1)
