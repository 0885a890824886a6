"""Reports: records in, tables and figures out."""
