"""The store: ClickHouse, as a server or embedded; the DSN selects which."""
