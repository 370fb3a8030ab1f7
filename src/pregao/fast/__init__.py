"""FAST 1.1: template files → model → message codec → column kernel, independent of any exchange.

`load_templates` reads templates. `Decoder` and `Encoder` process the messages of a stream one at a
time; `FastColumnDecoder` decodes many per call into flat columns and Arrow.
"""
