"""The command line: one module per command, named after the command (`main` lists them).

Modules that serve a single command carry its name as a prefix (`outputs`, `schema`).
Shared modules: `options` (option declarations), `option_values` (parsers of option values),
`new_files` (output files that appear complete or not at all), `progress` and `terminal`.
"""
