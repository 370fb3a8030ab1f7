"""Legacy feed of a channel (UMDF FIX/FAST, as PUMA sends it), in addition to the binary one.

It publishes the same events as entries of FAST messages: by order depth, by price depth or the top
of books. Loops are built from the published state, as on the binary feed.
"""
