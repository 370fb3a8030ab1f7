"""Life of an order: validation, entry, amendment, cancellation, stops, hidden and cross orders."""
