"""UMDF FIX/FAST, B3's feed before Binary UMDF: from datagrams to messages in sequence.

`read_chunks` splits a datagram into chunks, `Assembler` joins chunks into messages, `write_chunks`
is the reverse. `MessageReader` decodes a message with `pregao.fast` and the bundled templates, or
those of another file. `IncrementalLine` and `LoopLine` are the streams of a channel, sans-I/O: they
merge feeds and detect gaps and loops. `RecoveryClient` and `RecoveryServer` are the two sides of
TCP recovery, and `GapFiller` requests the messages that a line is missing. `pregao.feed` applies
the messages to books.
"""
