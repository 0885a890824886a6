"""Audits: models or saved files in, a verdict with its evidence out; verified and run again.

Names are imported from their modules: verifying is arithmetic on records and does without PyTorch.
"""
