"""Report to text: one module per format. No other module builds output."""
