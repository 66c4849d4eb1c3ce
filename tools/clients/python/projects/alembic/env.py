"""What Alembic runs to migrate: on the connection that the check hands over."""

import models
from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=models.Base.metadata,
    compare_server_default=True,
    transaction_per_migration=True,
    version_table="al_version",
    include_name=lambda name, kind, _: kind != "table" or name.startswith("al_"),
)
with context.begin_transaction():
    context.run_migrations()
