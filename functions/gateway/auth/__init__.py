"""Credentials in, `Caller` out."""
