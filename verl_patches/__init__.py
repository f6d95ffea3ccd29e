"""Everything that touches verl, Ray or vLLM. Only this package imports verl."""
