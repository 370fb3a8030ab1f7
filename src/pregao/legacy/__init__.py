"""UMDF FIX/FAST, B3's feed before Binary UMDF: the header of its datagrams, and messages in chunks.

`read_chunks` takes a datagram apart, `Assembler` puts messages together, `write_chunks` is the
reverse. What is inside a message is `pregao.fast`'s business.
"""

from pregao.legacy.assembly import Assembler, Message
from pregao.legacy.chunks import HEADER_SIZE, Chunk, read_chunks, write_chunks

__all__ = ["HEADER_SIZE", "Assembler", "Chunk", "Message", "read_chunks", "write_chunks"]
