"""The sections of the settings: towers, losses and training.

Every field states its meaning and its legal values. The flags of the programs, the checks and the
messages are made from them (`config_fields.py`). The defaults are the paper's.
"""

import dataclasses

from clarel_tf.config_fields import setting

# Checkpoint names have nine digits.
MOST_STEPS = 999_999_999
# No layer that fits on one machine is wider.
_WIDEST = 65_536
# Bound of factors on distances, losses or gradients; beyond it float32 loses their precision.
HEAVIEST = 1e6


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """The two towers.

    Example:

    >>> clarel_tf.ModelConfig(embedding_size=256).lstm_units
    512
    """

    embedding_size: int = setting(1024, "width of the joint image-text space", low=1, high=_WIDEST)
    image_dropout: float = setting(0.25, "dropout on the image features", low=0, high=0.95)
    feature_power: float = setting(
        1.0, "power of the image features; signs are kept", above=0, high=1
    )
    text_dropout: float = setting(0.25, "dropout before the text head", low=0, high=0.95)
    max_tokens: int = setting(30, "tokens of a caption; the rest is cut", low=1, high=_WIDEST)
    min_word_count: int = setting(
        1, "words with fewer occurrences in the training split are unknown", low=1, high=10**9
    )
    word_size: int = setting(
        300, "width of learned word embeddings (not for vector files)", low=1, high=_WIDEST
    )
    tune_word_vectors: bool = setting(
        False, "train the vectors of the file instead of freezing them"
    )
    filters: tuple[int, ...] = setting(
        (128, 256), "filters of the two residual blocks", low=1, high=_WIDEST
    )
    lstm_units: int = setting(512, "LSTM units in each direction", low=1, high=_WIDEST)
    text_pooling: str = setting(
        "mean",
        "pooling of the LSTM's outputs over time: mean, or mean and maximum concatenated",
        choices=("mean", "mean_max"),
    )
    batch_norm_momentum: float = setting(
        0.95, "batch norm: decay of the moving statistics", low=0, high=1
    )
    batch_norm_epsilon: float = setting(
        1e-6, "batch norm: added to the variance", above=0, high=HEAVIEST
    )
    l2: float = setting(
        0.001,
        "L2 regularisation: l2/2 * sum(w^2) over convolution kernels and batch-norm gamma, beta",
        low=0,
        high=HEAVIEST,
    )


@dataclasses.dataclass(frozen=True)
class LossConfig:
    """Weights and options of the four losses.

    Example:

    >>> clarel_tf.LossConfig(lambda_=0.8).kappa
    0.5
    """

    lambda_: float = setting(
        0.5, "lambda: weight of text retrieval against image retrieval", low=0, high=1
    )
    kappa: float = setting(0.5, "kappa: weight of classification against retrieval", low=0, high=1)
    mask_same_class: bool = setting(
        False, "leave other instances of the same class out of the negatives"
    )
    distance_scale: float = setting(
        1.0, "factor on distances in the retrieval losses", above=0, high=HEAVIEST
    )
    mixture_share: float = setting(
        0.0,
        "weight of the mixup retrieval loss, 0 to 1, among the retrieval losses of instances",
        low=0,
        high=1,
    )
    prototype_share: float = setting(
        0.0,
        "weight of the prototype loss (class means of the batch), 0 to 1, among the retrieval "
        "losses",
        low=0,
        high=1,
    )


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """Steps, batches and optimiser of a training phase.

    Example:

    >>> clarel_tf.TrainingConfig(optimizer="adam").batch_size
    32
    """

    steps: int = setting(
        150_000, "batches to train in each of the two phases", low=1, high=MOST_STEPS
    )
    equal_passes: bool = setting(
        False,
        "train the second phase for as many epochs as the first; its larger split then takes "
        "more steps than --steps",
    )
    batch_size: int = setting(32, "instances in a batch", low=1, high=10**6)
    captions: int = setting(
        0, "captions drawn for an instance at each step (0: all of them)", low=0, high=10**6
    )
    instances_per_class: int = setting(
        0, "draw classes, each with this many instances (0: draw instances)", low=0, high=10**6
    )
    similar_classes: float = setting(
        0.0,
        "preference of the batch sampler for similar classes, in log-odds per standard deviation "
        "of similarity (0: none; needs instances_per_class)",
        low=0,
        high=1000,
    )
    word_dropout: float = setting(
        0.0, "share of words that become the unknown word in a step", low=0, high=0.95
    )
    optimizer: str = setting("sgd", "optimiser", choices=("sgd", "adam"))
    learning_rate: float = setting(0.1, "highest learning rate", above=0, high=HEAVIEST)
    momentum: float = setting(0.9, "momentum of SGD", low=0, high=0.9999)
    clip_norm: float = setting(
        1.0, "clip each variable's gradient to this norm (0: off)", low=0, high=1e9
    )
    schedule: str = setting(
        "staircase", "learning-rate schedule", choices=("staircase", "cosine", "constant")
    )
    decay_every: int = setting(
        50_000, "staircase: steps between two decays", low=1, high=MOST_STEPS
    )
    decay_factor: float = setting(0.1, "staircase: factor of each decay", above=0, high=1)
    warmup_steps: int = setting(0, "cosine: steps of linear warm-up", low=0, high=MOST_STEPS)
    operations_at_once: int = setting(
        1,
        "operations that run in parallel: with 2, both directions of the LSTM run at the same "
        "time, which suits narrow towers",
        low=1,
        high=1024,
    )
    log_every: int = setting(100, "steps between two rows of history.csv", low=1, high=MOST_STEPS)
    evaluate_every: int = setting(
        0,
        "steps between evaluations on the validation splits in the first phase (0: none)",
        low=0,
        high=MOST_STEPS,
    )
    checkpoint_every: int = setting(500, "steps between two checkpoints", low=1, high=MOST_STEPS)
