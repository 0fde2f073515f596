"""Which failure messages of the producers' own source code do our rules name? See docs/source-coverage.md."""
