"""The static site: a page for every fact, made from the tables alone.

facts, words, addresses     what every page is made from, says, and where it is
markup, data_files          pages as text; what scripts and programs read
*_pages                     the pages themselves, as views before they are text
build, write                all files by address; a folder of them
"""
