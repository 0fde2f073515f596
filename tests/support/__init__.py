"""Fakes and servers that several tests share."""
