"""Cards with single images and captions: answers, retrieval both ways, confused classes."""

import html

from clarel_tf.evaluation.example_records import CaptionExample, Confusion, Example, ExampleCaption
from clarel_tf.evaluation.measures import Measures
from clarel_tf.reporting.html_page import (
    Markup,
    card,
    name,
    sentence,
    shortened,
    soft,
    table,
    tag,
)
from clarel_tf.reporting.page_pictures import PagePictures
from clarel_tf.reporting.results_table import number


def answer_cards(measures: Measures, pictures: PagePictures) -> list[str]:
    """Test images with right answers, then some with wrong ones, each with its nearest captions."""
    note = (
        "Drawn by seed from the test images. Bars are the probabilities of the nearest classes. "
        "Rejected: none of the classes, by the threshold."
    )
    if any(example.captions for example in measures.examples):
        note += " Below are the captions of the split that are nearest to the image."
    cards: list[str] = []
    for title, right in (("Right answers", True), ("Wrong answers", False)):
        items = [_example(one, pictures) for one in measures.examples if one.right == right]
        if items:
            told = "" if cards else soft(note)
            cards.append(card(title, told + _gallery(items), wide=True))
    return cards


def caption_cards(measures: Measures, pictures: PagePictures) -> list[str]:
    """Captions with the test images nearest to them."""
    if not measures.caption_examples:
        return []
    note = (
        "Captions drawn by seed, with the images of their split that are nearest to them. The "
        "caption's own image has a frame."
    )
    items = [_search(one, pictures) for one in measures.caption_examples]
    return [card("Images nearest to captions", soft(note) + _gallery(items, "pairs"), wide=True)]


def confusion_card(measures: Measures, pictures: PagePictures) -> str:
    """The pairs of classes most often confused: side by side, or as a table without pictures."""
    title = "Classes most often confused"
    if not measures.confusions:
        return card(title, "<p>No test image was given to a wrong class.</p>", wide=True)
    if not pictures:
        rows = [
            [name(pair.true), _kind(pair.true_is_seen), name(pair.predicted), pair.percent]
            for pair in measures.confusions
        ]
        header = ["true class", "", "given to", "% of its images"]
        return card(title, table(header, rows, text_columns=(0, 1, 2)), wide=True)
    note = (
        "Left: images of a class that are given to another. Right: images of that other class. "
        "Pairs of unseen classes come first, then those of seen classes."
    )
    pairs = [_pair(pair, pictures) for pair in measures.confusions]
    return card(title, soft(note) + _gallery(pairs, "pairs"), wide=True)


def _gallery(items: list[str], kind: str = "") -> str:
    # On narrow screens it scrolls, which the keyboard must reach.
    return f'<div class="gallery {kind}" tabindex="0">{"".join(items)}</div>'


def _kind(is_seen: bool) -> Markup:
    return Markup(tag("seen", "seen") if is_seen else tag("unseen", "unseen"))


def _example(example: Example, pictures: PagePictures) -> str:
    tags = [tag("✓ right", "right") if example.right else tag("✗ wrong", "wrong")]
    tags.append(_kind(example.is_seen))
    if example.accepted is not None:
        tags.append(tag("accepted" if example.accepted else "rejected"))
    picture = pictures.show(example.image_id, f"{example.image_id}: {example.class_name}")
    # The folder is often the class; the whole path is there for the pointer.
    whole = html.escape(shortened(example.image_id, 200))
    like = ""
    if example.predicted_image and not example.right:
        image = pictures.show(example.predicted_image, f"an image of {example.predicted}")
        if image:
            like = f'<div class="given">{image}<span>an image of the answer</span></div>'
    captions = "".join(_caption(caption, example.class_name) for caption in example.captions)
    captions = f'<ul class="captions">{captions}</ul>' if captions else ""
    return (
        f'<article class="item"><div class="shown">{picture}<div>'
        f'<div class="tags">{"".join(tags)}</div><h4>{name(example.class_name)}</h4>'
        f'<span class="soft" title="{whole}">{name(example.image_id.split("/")[-1])}</span>'
        f"{like}</div></div>"
        f"{_answers(example)}{captions}</article>"
    )


def _answers(example: Example) -> str:
    """The most probable classes with bars; older files have the answer alone."""
    if not example.answers:
        return f'<p class="soft">given to {name(example.predicted)}</p>'
    lines = []
    for answer in example.answers:
        kind = ' class="true"' if answer.class_name == example.class_name else ""
        mark = "✓ " if kind else ""
        percent = number(answer.probability, digits=0)
        lines.append(
            f'<li{kind}><div class="line"><span>{mark}{name(answer.class_name)}</span>'
            f"<span>{percent} %</span></div>"
            f'<div class="bar"><i style="width:{percent}%"></i></div></li>'
        )
    return f'<ul class="answers">{"".join(lines)}</ul>'


def _caption(caption: ExampleCaption, class_name: str) -> str:
    if caption.own:
        mark, of = tag("✓ own caption", "right"), ""
    elif caption.class_name == class_name:
        mark, of = tag("✓ same class", "right"), ""
    else:
        mark = tag("other class")
        of = f' <span class="soft">of {name(caption.class_name)}</span>'
    return f"<li>{mark} {sentence(caption.text)}{of}</li>"


def _search(example: CaptionExample, pictures: PagePictures) -> str:
    found = []
    for image in example.images:
        same = image.class_name == example.class_name
        mark = "own image" if image.own else "same class" if same else "other class"
        picture = pictures.show(image.image_id, f"{image.image_id}: {image.class_name}")
        found.append(
            f"<figure{' class=own' if image.own else ''}>{picture}<figcaption>"
            f"{tag(mark, 'right' if same else '')}<br>{name(image.class_name)}"
            "</figcaption></figure>"
        )
    rank = f"its own image is number {example.rank:,} of {example.among:,}"
    return (
        f'<article class="item"><p><q>{sentence(example.text)}</q></p>'
        f'<div class="soft">{_kind(example.is_seen)} {name(example.class_name)}; {rank}</div>'
        f'<div class="found">{"".join(found)}</div></article>'
    )


def _pair(pair: Confusion, pictures: PagePictures) -> str:
    left = "".join(
        pictures.show(one, f"{pair.true}, given to {pair.predicted}") for one in pair.images
    )
    right = "".join(pictures.show(one, pair.predicted) for one in pair.predicted_images)
    back = "" if pair.predicted_is_seen is None else _kind(pair.predicted_is_seen)
    if pair.percent_back is None:
        told = "has no test images"
    else:
        told = f"{pair.percent_back:.0f} % of its images are given to the class on the left"
    return (
        f'<article class="item pair"><div><h4>{name(pair.true)}</h4>{_kind(pair.true_is_seen)}'
        f'<div class="pictures">{left}</div>'
        f'<span class="soft">{pair.percent:.0f} % of its images are given to the class on the '
        f'right</span></div><div class="arrow">→</div><div><h4>{name(pair.predicted)}</h4>{back}'
        f'<div class="pictures">{right}</div><span class="soft">{told}</span></div></article>'
    )
