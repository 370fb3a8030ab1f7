"""EntryPoint messages in captures: TCP streams to frames, senders and columns."""
