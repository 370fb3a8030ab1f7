"""Simple Binary Encoding 1.0: XML → schema model → message codec → column kernels.

`load_schema` reads a schema. `SchemaCodec` decodes and encodes single messages; `ColumnDecoder`
decodes many messages of one template into Arrow arrays. `readings` maps fields to typed values.
"""
