"""The market itself: instruments, phases, matching, auctions, protections and surveillance."""
