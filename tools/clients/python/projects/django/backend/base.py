"""Django's PostgreSQL with foreign keys that each statement checks: it makes them DEFERRABLE, which Sakigake refuses."""

from django.db.backends.postgresql import base, operations


class DatabaseOperations(operations.DatabaseOperations):
    def deferrable_sql(self):
        return ""


class DatabaseWrapper(base.DatabaseWrapper):
    ops_class = DatabaseOperations
