"""Mutation testing of the formulas: are there changes to the code that no test sees?"""
