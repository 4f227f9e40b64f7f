"""Writes pictures of some classes of the demo, side by side, one class per column.

Run it as `python -m clarel_tf.datasets.demo.contact_sheet birds.jpg`.
"""

import argparse

import numpy as np
from PIL import Image

from .drawing import SIZE, draw
from .world import World, look_of_class, make_classes, named

_GAP = 4  # white pixels between pictures


def contact_sheet(columns: int, rows: int) -> np.ndarray:
    """Pictures of the first classes of the world, uint8 [height, width, 3]."""
    world = World()
    classes = make_classes(world, 80)
    step = SIZE + _GAP
    sheet = np.full((rows * step - _GAP, columns * step - _GAP, 3), 255, np.uint8)
    for column, values in enumerate(classes[:columns]):
        shown, look = named(values.tolist()), look_of_class(world, values)
        for row in range(rows):
            picture = draw(shown, look, np.random.default_rng([1, column, row]))
            top, left = row * step, column * step
            sheet[top : top + SIZE, left : left + SIZE] = picture
    return sheet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", help="picture to write, such as birds.jpg")
    parser.add_argument("--columns", type=int, default=7, help="number of classes, up to 80")
    parser.add_argument("--rows", type=int, default=3, help="pictures of each class")
    arguments = parser.parse_args()
    sheet = contact_sheet(arguments.columns, arguments.rows)
    Image.fromarray(sheet).save(arguments.output, quality=85)


if __name__ == "__main__":
    main()
