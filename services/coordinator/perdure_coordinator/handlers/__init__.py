"""One file per RPC; the servicers only delegate to them."""
