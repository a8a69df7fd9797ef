"""Layouts that other people's packages state, compared with the tables: who states what, and where it differs.

ask_package, child       asks a package in a process of its own
adapters                 a file a package
statement, judge         what it states, and the verdict
no_form                  forms that no arch has
package_audit            the report
"""
