"""HELP sentences of the counters in Prometheus metrics, by the name of the counter."""

from __future__ import annotations

CHANNEL_HELP = {
    "packets": "Datagrams received by a channel, on all streams and feeds.",
    "bytes": "Bytes of the datagrams received by a channel.",
    "bad_packets": "Datagrams that are not packets of the channel.",
    "unexpected_packets": "Packets of streams that were left, or of the site that is not followed.",
    "delivered": "Incremental packets applied in sequence.",
    "messages": "Messages in the incremental packets that were applied.",
    "undecoded_messages": "Messages that could not be decoded, or lack required fields.",
    "failures": "Packets whose processing failed; each counts as lost.",
    "gaps": "Gaps in the packets of the incremental stream.",
    "lost_packets": "Incremental packets that no feed delivered.",
    "recovered_messages": "Lost messages of the legacy feed that were recovered over TCP.",
    "stale": "Number of times that a book became stale.",
    "healed": "Number of times that a stale book was healed.",
    "unconfirmed": "Number of times that a book became unconfirmed.",
    "confirmed": "Number of times that an unconfirmed book was confirmed.",
    "overflows": "Messages of stale or unconfirmed books dropped because the queue was full.",
    "instruments_dropped": "Messages, snapshots and definitions of instruments beyond the limit.",
    "snapshots": "Complete snapshots received.",
    "outdated_snapshots": "Snapshots of an older sequence version, which are not used.",
    "snapshot_loops": "Complete loops of the snapshot stream.",
    "definition_loops": "Complete loops of the instrument definition stream.",
    "outages": "Number of times that no packets were received and the channel went down.",
    "failovers": "Number of switches to the other site.",
    "resyncs": "Number of restarts because sequence numbers had gone back.",
    "events_missed": "Events dropped because they were not taken in time.",
    "news_dropped": "News items that were too long, or whose parts did not all arrive in time.",
}
"""Counters of a channel: the fields of `pregao.feed.channel_settings.ChannelCounters`."""

FEED_HELP = {
    "packets": "Packets received on a feed of the incremental stream.",
    "first_arrivals": "Packets that no other feed had delivered before.",
    "duplicates": "Packets that another feed had already delivered.",
    "late": "Packets that arrived after they were declared lost.",
    "heartbeats": "Heartbeats received on a feed of the incremental stream.",
}
"""Counters of a feed: the fields of `pregao.feed.channel_settings.FeedCounters`."""

LINE_HELP = {
    "packets": "Datagrams received by the socket of a line.",
    "bytes": "Bytes received by the socket of a line.",
    "truncated": "Datagrams that were truncated because they were longer than a slot.",
    "dropped": "Datagrams dropped by the kernel because the socket's buffer was full.",
}
"""Counters of a line: the fields of `pregao.net.LineCounts`."""
