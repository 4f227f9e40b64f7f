"""Installs clarel_tf. `datasets/` stays out of it on purpose: it would shadow another package."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "clarel_tf/__init__.py").read_text())[1]

setup(
    name="clarel_tf",
    version=VERSION,
    description="Zero-shot classification by retrieval (CLAREL) in TensorFlow and Keras",
    # Makes an editable install a plain path entry, which also works from the clone's parent folder.
    package_dir={"": "."},
    packages=find_packages(include=["clarel_tf", "clarel_tf.*"]),
    python_requires=">=3.10",
    install_requires=[
        "absl-py>=2.0",
        "grpcio>=1.60",
        "keras>=3.15,<4",
        "matplotlib>=3.8",
        "numpy>=2.0,<3",
        "protobuf>=6.31",
        "requests>=2.28",
        "scipy>=1.11,<2",
        "tensorboard>=2.20,<3",
        "tensorflow>=2.21,<2.22",
        "tensorflow-serving-api>=2.21,<3",
        "tensorflow-datasets>=4.9.10,<5",
        "tqdm>=4.60",
        # The `tfds` command does not start without these three.
        "apache-beam>=2.60",
        "importlib_resources>=6.0",
        "mlcroissant>=1.0",
    ],
    extras_require={
        "dev": [
            "cryptography>=42.0",  # certificates of test servers
            "dill>=0.3",  # of tfds.testing
            "hypothesis>=6.100",
            "pytest>=8.0",
            "pytest-xdist>=3.5",
            "ruff>=0.6",
        ],
        # For a comparison in benchmarks/; the CPU build is enough.
        "torch": ["torch>=2.4"],
    },
)
