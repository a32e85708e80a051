"""Many reports to one picture; two of them side by side. Pure."""
