"""The pipeline under attack, compared with a calm run on the same records: `make chaos`.

`feed` makes the records of a seed, `attacks` draws what happens to the pipeline, `pipeline` runs it on a real broker
and a real store, `judge` accounts for every record and lists the differences.
"""
