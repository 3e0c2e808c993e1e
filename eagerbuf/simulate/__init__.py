"""What the scheduler sends: requests, replayed batches, the search over the bound."""
