"""Tests of cudadoctor; the files mirror the package."""
