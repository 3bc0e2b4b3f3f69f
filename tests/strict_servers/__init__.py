"""Fake servers of the three APIs that refuse what the real ones refuse, and stream scripted replies otherwise.

Each server is a script of :class:`support.http_server.HTTPServer`; its ``check`` is a pure reading of a request body.
"""
