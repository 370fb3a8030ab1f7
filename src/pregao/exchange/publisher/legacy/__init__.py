"""The legacy feed of a channel (UMDF FIX/FAST, as PUMA sends it), beside the binary one.

The same events, told as entries of FAST messages: a channel by order depth, by price depth or of
the top of books. Loops are made of what was published before, as on the binary feed.
"""

from pregao.exchange.publisher.legacy.channel import LegacyChannelPublisher

__all__ = ["LegacyChannelPublisher"]
