"""Development servers: broker, ClickHouse's HTTP interface, a whole cluster under load. Not in the wheel."""
