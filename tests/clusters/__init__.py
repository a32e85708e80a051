"""`cudadoctor fleet` against real clusters of several nodes on this one machine, each node with a host name of its own (root, Linux)."""
