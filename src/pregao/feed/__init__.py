"""Following a channel: book updates, recovery by snapshots, and statistics.

The rules do not depend on how a channel is read: `Follower` processes packets in order, its bulk
twin `DayFollower` a day as columns. `Channel` follows a channel live, over its feeds: datagrams and
times in, events (`pregao.events`) and actions out; `FastChannel` does the same for many datagrams
per call. `LegacyStreamFollower` follows a channel of the legacy feed, with the same book states.
None of them uses files, sockets or Spark.
"""
