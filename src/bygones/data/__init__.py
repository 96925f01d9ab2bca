"""History as data: views for SQL, Arrow tables and Parquet files."""
