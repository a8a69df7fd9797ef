"""Layouts that other people's packages state, compared with the tables: who states what, and where it differs.

child, adapters     asks a package, in a process of its own; a file a package
statement           what it states
package_audit       the verdict, and the report
question            the command
"""
