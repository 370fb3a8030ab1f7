"""Events as messages of Binary UMDF, in any version: what a message carries, its schema says."""

from pregao.exchange.publisher.encoding.encoder import DEFAULT_VERSION, FeedEncoder

__all__ = ["DEFAULT_VERSION", "FeedEncoder"]
