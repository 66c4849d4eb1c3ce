"""Columns that come, go, change their names and types."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"


def upgrade():
    op.alter_column("al_customers", "name", new_column_name="full_name", type_=sa.String(120),
                    existing_type=sa.String(40), existing_nullable=False)
    op.alter_column("al_customers", "mail", new_column_name="email", type_=sa.Text, existing_type=sa.String(60))
    op.execute("UPDATE al_customers SET credit = 0 WHERE credit IS NULL")
    op.alter_column("al_customers", "credit", type_=sa.Numeric(12, 2), nullable=False, server_default=sa.text("0"),
                    existing_type=sa.Integer)
    op.drop_column("al_customers", "fax")
    op.add_column("al_customers", sa.Column("country", sa.CHAR(2), nullable=False, server_default="JP"))
    op.add_column("al_customers", sa.Column("key", sa.Uuid, nullable=False, server_default=sa.func.gen_random_uuid()))
    op.add_column("al_customers", sa.Column("joined", sa.DateTime(timezone=True), nullable=False,
                                            server_default=sa.func.now()))
    op.alter_column("al_orders", "customer", new_column_name="customer_id", existing_type=sa.Integer)
    op.alter_column("al_orders", "placed", type_=sa.Date, postgresql_using="placed::date",
                    existing_type=sa.String(10), existing_nullable=False)
    op.add_column("al_orders", sa.Column("note", sa.Text))


def downgrade():
    op.drop_column("al_orders", "note")
    op.alter_column("al_orders", "placed", type_=sa.String(10), postgresql_using="to_char(placed, 'YYYY-MM-DD')",
                    existing_type=sa.Date, existing_nullable=False)
    op.alter_column("al_orders", "customer_id", new_column_name="customer", existing_type=sa.Integer)
    for column in ("joined", "key", "country"):
        op.drop_column("al_customers", column)
    op.add_column("al_customers", sa.Column("fax", sa.Text))
    op.alter_column("al_customers", "credit", type_=sa.Integer, nullable=True, server_default=None,
                    existing_type=sa.Numeric(12, 2))
    op.alter_column("al_customers", "email", new_column_name="mail", type_=sa.String(60), existing_type=sa.Text)
    op.alter_column("al_customers", "full_name", new_column_name="name", type_=sa.String(40),
                    existing_type=sa.String(120), existing_nullable=False)
