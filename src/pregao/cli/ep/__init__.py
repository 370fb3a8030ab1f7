"""``pregao ep``: an order-entry console over Binary EntryPoint."""
