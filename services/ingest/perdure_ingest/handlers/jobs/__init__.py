"""The handlers of JobService, one file per thing that callers do with jobs."""
