"""Team stores on PostgreSQL and ClickHouse."""
