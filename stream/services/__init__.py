"""The services of a worker, one for each hop. stream/app.py wires them."""
