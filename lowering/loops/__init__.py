"""Passes over `prim.scan`: what need not wait for the steps leaves the loop, what a scan has computed another one reads."""
