"""Values, instruments, schedules, commands, reports and market events of the engine."""
