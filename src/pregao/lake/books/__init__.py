"""Books in the lake: rebuilt from the message tables, told as ticks and checkpoints, audited."""
