"""Questions and passages from data sets: verl's parquet schema, converters, manifests."""
