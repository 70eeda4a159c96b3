"""The second part of `spark-submit.sh`, in its environment: Spark's options, Java, JARs, and packages for executors elsewhere."""
