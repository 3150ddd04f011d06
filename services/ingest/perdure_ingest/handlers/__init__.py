"""One file per RPC: check everything, then read, or ask the coordinator."""
