"""What a step does: one module per way of doing it, all behind `port.Executor`."""
