"""RocketMQ in Python: name server, broker, client and Spark pipeline."""
