"""A day of a channel as columns: sequence, snapshots, statistics, outcomes and audit."""
