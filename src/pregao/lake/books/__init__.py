"""Books in the lake: rebuilt from message tables into ticks and checkpoints, and audited.

Names are imported on first use.
"""
