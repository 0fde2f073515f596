"""Everything that knows aiokafka."""
