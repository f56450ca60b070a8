"""Modules by subject. Start reading at module.py."""
