"""Order books: by price and priority, by position, by level, top of book, and their replay.

Names are imported on first use: only the replay and flat books need numba.
"""
