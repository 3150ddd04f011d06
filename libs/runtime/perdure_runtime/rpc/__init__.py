"""gRPC between services: server, client, deadlines, and the mapping of errors to statuses."""
