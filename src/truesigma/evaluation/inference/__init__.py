"""Estimates with errors that count clusters, and what each of the five questions makes of them."""
