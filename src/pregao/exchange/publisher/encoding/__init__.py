"""Encoding of events as Binary UMDF messages of any version, driven by the version's schema."""

from pregao.exchange.publisher.encoding.encoder import DEFAULT_VERSION, FeedEncoder

__all__ = ["DEFAULT_VERSION", "FeedEncoder"]
