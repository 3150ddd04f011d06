"""HTTP/JSON: the calls of the public gRPC services, by the routes that their protos name."""
