"""Binary UMDF: packets, streams, sequencing; bytes in, messages with their keys out."""
