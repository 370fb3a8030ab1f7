"""Order books: by price and priority, by position, by level, top of book, and their replay."""
