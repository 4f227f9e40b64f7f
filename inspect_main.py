"""Shows a built dataset: splits, overlaps, captions, vocabulary, examples.

python inspect_main.py --dataset=cub --config=custom --word_vectors=glove.6B.100d.txt
"""

from clarel_tf.commands.inspect import run

if __name__ == "__main__":
    run()
