"""Packets by channel and stream, with Spark SQL: python examples/query_spark.py LAKE."""

import sys

from pregao.lake import connect

session = connect(sys.argv[1])
packets = session.sql(
    """
    SELECT channel, stream, count(*) AS packets, sum(message_count) AS messages
    FROM packets
    GROUP BY channel, stream
    ORDER BY channel, stream
    """
)
packets.show()
