"""Django's PostgreSQL, with foreign keys that each statement checks: DEFERRABLE ones, as Django's are, are refused."""

from django.db.backends.postgresql import base, operations


class DatabaseOperations(operations.DatabaseOperations):
    def deferrable_sql(self):
        return ""


class DatabaseWrapper(base.DatabaseWrapper):
    ops_class = DatabaseOperations
