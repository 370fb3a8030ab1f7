"""A channel followed: what its messages mean for books, which snapshot heals what, statistics.

What is here holds whoever reads the channel: `Follower` takes packets as they come, its bulk twin
`DayFollower` takes a day as columns. Neither knows of files, sockets or Spark.
"""
