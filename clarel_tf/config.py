"""The settings of a run: a frozen dataclass with its sections, to and from JSON."""

import dataclasses
from typing import Any

from clarel_tf.config_fields import check, convert, setting
from clarel_tf.config_sections import HEAVIEST, LossConfig, ModelConfig, TrainingConfig
from clarel_tf.errors import ClarelError


@dataclasses.dataclass(frozen=True)
class Config:
    """All settings that determine the result of a run.

    Example:

    >>> config = clarel_tf.Config().override({"kappa": 0.25, "steps": 1000})
    >>> config.loss.kappa, config.training.steps
    (0.25, 1000)
    """

    dataset: str = setting("demo", "dataset: a folder below datasets/")
    dataset_config: str = setting(
        "", "builder config of the dataset (empty: its default); for pairs, any name of your own"
    )
    protocol: str = setting(
        "clean",
        "validation protocol: 'clean' leaves every test_seen image out, 'paper' does not",
        choices=("clean", "paper"),
    )
    class_division: int = setting(
        0,
        "validation classes: 0 those of the dataset, N the Nth random division of the classes of "
        "trainval into seen and unseen ones",
        low=0,
        high=2**31 - 1,
    )
    alpha_transfer: str = setting(
        "value",
        "how the chosen alpha carries over to the tested model: the same 'value', as in the paper, "
        "or the same 'offset' of distances, which corrects for distances that have grown",
        choices=("value", "offset"),
    )
    head_evidence: float = setting(
        0.0,
        "weight of the image head's log-probability in the distance to a seen class "
        "(0: captions alone decide, as in the paper)",
        low=0,
        high=HEAVIEST,
    )
    discriminant_evidence: float = setting(
        0.0,
        "weight of LDA of the seen classes, extended to unseen classes, as a share of the "
        "variation of distances (0: off, as in the paper)",
        low=0,
        high=HEAVIEST,
    )
    word_vectors: str = setting(
        "", "word2vec, GloVe or fastText file, plain or .gz (empty: learn word embeddings)"
    )
    seed: int = setting(0, "random seed of weights, batches and dropout", low=0, high=2**31 - 1)
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    loss: LossConfig = dataclasses.field(default_factory=LossConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)

    def __post_init__(self) -> None:
        for section, field in settings():
            owner = getattr(self, section) if section else self
            check(field, getattr(owner, field.name))
        if len(self.model.filters) != 2:
            raise ClarelError(f"filters must name 2 residual blocks, not {len(self.model.filters)}")
        if self.head_evidence and not self.loss.kappa:
            raise ClarelError(
                f"head_evidence={self.head_evidence:g} needs the image head, which kappa=0 does "
                "not train; set head_evidence=0"
            )
        if self.training.similar_classes and not self.training.instances_per_class:
            raise ClarelError(
                f"similar_classes={self.training.similar_classes:g} needs batches drawn by class; "
                "set instances_per_class to at least 1"
            )
        if self.training.warmup_steps >= self.training.steps:
            raise ClarelError(
                f"warmup_steps ({self.training.warmup_steps}) must be below "
                f"steps ({self.training.steps})"
            )

    def override(self, values: dict[str, Any]) -> "Config":
        """A copy with the named settings changed; names are unique, so they need no section."""
        changes: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            section, field = _find(name)
            changes.setdefault(section, {})[name] = convert(field, value)
        sections = {
            section: dataclasses.replace(getattr(self, section), **changed)
            for section, changed in changes.items()
            if section
        }
        return dataclasses.replace(self, **changes.get("", {}), **sections)

    def to_dict(self) -> dict[str, Any]:
        """The config as nested plain values, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Config":
        """The inverse of `to_dict`; ClarelError names an unknown key."""
        if not isinstance(values, dict):
            raise ClarelError("a config must be a JSON object")
        flat: dict[str, Any] = {}
        for name, value in values.items():
            if name not in SECTIONS:
                _find(name, section="")
                flat[name] = value
                continue
            if not isinstance(value, dict):
                raise ClarelError(f"{name} must be a JSON object of settings")
            for inner_name, inner_value in value.items():
                _find(inner_name, section=name)
                flat[inner_name] = inner_value
        return cls().override(flat)


SECTIONS: dict[str, type] = {"model": ModelConfig, "loss": LossConfig, "training": TrainingConfig}


def settings() -> list[tuple[str, dataclasses.Field]]:
    """Every setting as (section, field); the section of a top-level setting is ''."""
    top = [("", field) for field in dataclasses.fields(Config) if field.name not in SECTIONS]
    return top + [
        (section, field) for section, kind in SECTIONS.items() for field in dataclasses.fields(kind)
    ]


def _find(name: str, section: str | None = None) -> tuple[str, dataclasses.Field]:
    for its_section, field in settings():
        if field.name == name and section in (None, its_section):
            return its_section, field
    where = f" in section {section!r}" if section else ""
    raise ClarelError(f"unknown config key {name!r}{where}")
