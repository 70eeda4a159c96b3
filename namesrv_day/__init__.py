"""One day of one name server, in Arrow: `pa.Table` in, `pa.Table` out. No Spark, no I/O, no clock."""
