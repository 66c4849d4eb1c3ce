"""Random statements whose answers two servers have to agree on."""
