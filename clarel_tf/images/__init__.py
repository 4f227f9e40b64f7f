"""Photographs in, features out: decoding, backbones and the extraction of whole folders.

`decoding.decode_pictures(image_bytes, size)` turns encoded pictures, string [B], into pixels,
float32 [B, size, size, 3] from 0 to 255, and into what is wrong with each of them, string [B],
empty where all is well. It is made of core TensorFlow operations, so the same code runs in
extraction and in an exported graph.

A `backbones.Backbone` turns these pixels into features, float32 [B, D], by its method
`features(pixels)`; scaling of the pixels, mirroring and pooling are inside. It can be traced into a
graph; `export_resources()` lists what a Keras `ExportArchive` must track. Its `record`
(`backbone_record.BackboneRecord`) says which network it is, the SHA-256 of its weights, the input
size and the preprocessing. Whoever stores features stores the record beside them, and calls
`record.check_same(...)` before features of two sources meet. `loading.load_backbone(name,
input_size, weights, mirrored, cropped)` makes a backbone: the default, one of keras.applications,
or a file.
"""
