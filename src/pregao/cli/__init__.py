"""The command line: one module per command, named after the command (`main` lists them).

Commands with several modules are subpackages (`decode`, `ep`, `exchange`, `live`, `simulate`).
Shared modules: `options` (option declarations), `option_values` (parsers of option values),
`output_files` (output files that appear complete or not at all), `console` (tables and progress).
"""
