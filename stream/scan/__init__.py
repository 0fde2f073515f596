"""A batch of records -> matches, heartbeats and dead letters. No Kafka in here."""
