"""How `spark-submit.sh` goes on once its environment is there: Spark's options, Java, JARs, and what executors elsewhere need."""
