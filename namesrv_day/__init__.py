"""The work on one day of one name server: Arrow tables in, Arrow tables out. No Spark, no I/O, no clock."""
