"""A channel followed live, packet by packet: synchronization, recovery, failover and events."""
