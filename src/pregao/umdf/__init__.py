"""Binary UMDF: the rules of the feed, without books, sockets or files.

`packets` parses packets, `templates` names template ids and flags, `keys` the columns of a
message's key. The rules are small state machines: `sequencing` (expected, missing and late
packets), `arbitration` (one sequence from several feeds), `events` (messages that belong together),
`streams` (the stream of a flow), `loops` and `gaps` (snapshots, and the gaps that they heal),
`phases` (trading states).

Bulk processing is in separate modules, because it needs numba and Arrow: `bulk_decoder` (walk and
decode), `tables` (columns of templates), `key_columns`, `survey`, and the columnar form of each
rule: `arbitration_columns`, `event_columns`, `gap_columns`.
"""
