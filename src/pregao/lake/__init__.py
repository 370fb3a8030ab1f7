"""The lake: captures to Delta tables on Spark, and the tables back to people."""
