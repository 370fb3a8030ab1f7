"""The command line: a module for each command, named as the command (`main` lists them).

What only one command needs is beside it under its name (`decode_output`, `schema_tables`). Shared
are `options` (declared once) and `option_values` (their text, read), `input_captures` (captures
by name), `new_files` (files that appear whole or not at all), `progress` and `terminal`.
"""
